"""Every command says in its help what it does and how it is used, in the same layout."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from efim_lab import commands as laboratory
from efim_lab.workshop.training import command as training
from efim_lab.workshop.training.finetune import command as finetuning
from efim_ls.cli import build_parser
from efim_ls.commands.arguments import Parser, actions, all_parsers, subparsers

COMMAND = re.compile(r"(?:efim-ls|python -m efim_lab)[^|<>)\n]*")  # a command line within a line of a shell
TRAIN = f"{laboratory.PROGRAM} train"


def every_parser() -> Iterator[argparse.ArgumentParser]:
    """All parsers of both command lines, `train`'s own in place of the empty one that only names it."""
    yield from all_parsers(build_parser())
    yield from (each for each in all_parsers(laboratory.build_parser()) if each.prog != TRAIN)
    yield from all_parsers(training.build_parser())
    yield finetuning.build_parser()


PARSERS = list(every_parser())
NAMES = [f"{each.prog} ({number})" for number, each in enumerate(PARSERS)]


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """The command lines below the heading of a parser's examples."""
    heading, *lines = (parser.epilog or "").splitlines()
    assert heading in ("example:", "examples:")
    indented = lines[: next((n for n, line in enumerate(lines) if not line.startswith("  ")), None)]
    return [line.strip() for line in indented]


def parse(command: str) -> None:
    """Parse a command line as its program does; exits if it is wrong."""
    if command.startswith(TRAIN):
        step = finetuning if "--base" in command else training
        step.build_parser().parse_args(command.removeprefix(TRAIN).split())
    elif command.startswith(laboratory.PROGRAM):
        laboratory.build_parser().parse_args(command.removeprefix(laboratory.PROGRAM).split())
    else:
        build_parser().parse_args(command.split()[1:])


def test_every_command_is_looked_at() -> None:
    names = {each.prog for each in PARSERS}
    assert {"efim-ls", "efim-ls serve", "efim-ls context"} <= names
    assert {f"python -m efim_lab{each}" for each in ("", " bench efim-paper", " train run", " train")} <= names
    assert len(PARSERS) > 20


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_it_has_a_description_and_an_example_in_one_layout(parser: argparse.ArgumentParser) -> None:
    assert isinstance(parser, Parser) and parser.formatter_class is argparse.RawDescriptionHelpFormatter
    assert parser.description and parser.description[0].isupper() and parser.description.endswith(".")
    assert examples(parser)
    assert all(len(line) <= 78 for line in [*parser.description.splitlines(), *examples(parser)])


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_its_examples_parse(parser: argparse.ArgumentParser) -> None:
    for line in examples(parser):
        [command] = COMMAND.findall(line.partition(" > ")[0])
        assert command.startswith(parser.prog)
        parse(command)


@pytest.mark.parametrize("parser", [build_parser(), laboratory.build_parser()], ids=lambda parser: parser.prog)
def test_the_help_lists_each_command_once(parser: Parser) -> None:
    listed = re.findall(r"^    ([a-z-]+)(?:  |$)", parser.format_help().partition("\n\noptions:")[0], re.MULTILINE)
    assert listed and listed == list(subparsers(parser))


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_every_argument_is_explained(parser: argparse.ArgumentParser) -> None:
    shown = [each for each in actions(parser) if not isinstance(each, argparse._SubParsersAction)]
    assert all(each.help for each in shown)
    assert all(each.metavar or each.choices or each.option_strings for each in shown)
