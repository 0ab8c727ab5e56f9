"""Parsing that the commands share: the layout of help, one-line errors, and checked values."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NoReturn, cast

from efim_ls.failures import Failure, Mistake
from efim_ls.languages.table import name_of
from model_runtime.regular_files import UnfitFile, check_regular

if TYPE_CHECKING:
    from efim_ls.settings import Settings

    Subparsers = argparse._SubParsersAction["Parser"]  # pyright: ignore[reportPrivateUsage]


MODEL = (
    "a folder, a GGUF file, or owner/name on the Hugging Face hub (default: the embedded model)"  # help of --model
)
CACHE_FOLDER = "the cache folder, as in the setting cache_folder (default: the system's cache folder)"
EMBEDDED = ("model_runtime", "embedded")  # the parents of embedded models' folders
HELP_WIDTH = 78  # characters of a line of descriptions: argparse leaves two of a terminal's 80 free


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors take one line, and whose help ends with examples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of an ArgumentParser; lines of its texts are kept as they are."""
        super().__init__(*arguments, **{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Name a command that is close to an unknown one, rather than list all."""
        if action.choices is None or value in action.choices or not is_command(action):
            super()._check_value(action, value)
            return
        close = get_close_matches(str(value), map(str, action.choices), 1)
        remedy = f"use {close[0]}, or see" if close else "see"
        self.exit(2, f"{self.prog}: there is no command {str(value)!r}: {remedy} {self.prog} --help\n")


def run_command(program: str, arguments: argparse.Namespace) -> int:
    """Run a parsed command; return its exit status, or the status of its failure."""
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"{program}: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone; otherwise the interpreter's last flush would print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def add_command(commands: Subparsers, name: str, summary: str, *examples: str, details: str = "") -> Parser:
    """Add a command with whole command lines as examples.

    The `summary`, a sentence without its capital and period, is shown in the list of commands; the `details`, whole
    sentences, follow it in the command's own help.
    """
    about = f"{summary[0].upper()}{summary[1:]}. {details}"
    return commands.add_parser(name, help=summary, description=wrapped(about), epilog=epilog(*examples))


def wrapped(text: str) -> str:
    """Return a help text with its lines as long as argparse makes its own in 80 columns."""
    return textwrap.fill(text.strip(), HELP_WIDTH)


def epilog(*examples: str) -> str:
    """Return the end of a help text: whole command lines that show how a command is used."""
    return "\n".join([f"example{'s' * (len(examples) > 1)}:", *(f"  {each}" for each in examples)])


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of all commands below it."""
    yield parser
    for each in subparsers(parser).values():
        yield from all_parsers(each)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands below a parser, by name."""
    for action in actions(parser):
        if is_command(action):
            return cast("dict[str, argparse.ArgumentParser]", action.choices)  # pyright: ignore[reportUnknownMemberType]
    return {}


def is_command(action: argparse.Action) -> bool:
    """Return whether an argument is the name of a command."""
    return isinstance(action, argparse._SubParsersAction)  # pyright: ignore[reportPrivateUsage]


def actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """Return the arguments of a parser."""
    return parser._actions  # pyright: ignore[reportPrivateUsage] - argparse has no public list of arguments


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s: `1 file`, `1,204 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def model_name(name: str) -> str:
    """Return a model's name or folder for people; an embedded model's name is a path, of any installation."""
    parts = PurePath(name).parts
    return f"embedded model for {name_of(parts[-1])}" if parts[-3:-1] == EMBEDDED else name


def object_setting(option: str, name: str, text: str, others: Mapping[str, object]) -> Settings:
    """Return settings with `others` and an option's JSON object; raises Mistake."""
    from efim_ls.settings import parse

    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise Mistake(f'{option} is no JSON object ({error}): write it like {{"name": "value"}}') from None
    settings, problems = parse({**others, name: given})
    if problems:
        raise Mistake(problems[0])
    return settings


def check_file(path: Path) -> None:
    """Raise Mistake unless a path is a regular file."""
    try:
        check_regular(path)
    except UnfitFile:
        raise Mistake(f"{path} is not a regular file: check the path") from None
    except (OSError, ValueError):
        raise Mistake(f"{path} is not a file: check the path") from None


def check_model(name: str) -> None:
    """Raise Failure if a model's name or folder cannot be used; imports no torch."""
    from efim_ls.completion.models.kinds import kind_of
    from efim_ls.settings import Settings
    from model_runtime.errors import ModelError

    settings = Settings(model=name)
    try:
        kind_of(settings).check(settings)
    except ModelError as error:
        raise Failure(str(error)) from error


@contextmanager
def access_errors(folder: Path) -> Generator[None]:
    """Turn an OSError into a Failure that names the folder."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"{folder} cannot be read or changed ({error.strerror}): check its permissions") from error


def port(text: str) -> int:
    """Parse a port number; 0 stands for any free port."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 (any) to 65535, got {text!r}")
    return int(text)
