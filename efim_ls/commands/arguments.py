"""Parsing that the commands share: one-line errors, checked numbers, and how a command is added."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction["Parser"]  # pyright: ignore[reportPrivateUsage]


class Failure(Exception):
    """A command failed; the message says why."""

    status = 1


class Mistake(Failure):
    """The user made a mistake; the message says what to correct."""

    status = 2


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_command(commands: Subparsers, name: str, summary: str) -> Parser:
    """Add a command whose `summary`, a sentence without its capital and period, is shown in every help text."""
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")


def whole_number(least: int, text: str) -> int:
    """Parse a whole number of at least `least`."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return int(text)


def check_file(path: Path) -> None:
    """Raise Mistake unless a path is a file."""
    if not path.is_file():
        raise Mistake(f"{path} is not a file: check the path")


def port(text: str) -> int:
    """Parse a port number; 0 stands for any free port."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 (any) to 65535, got {text!r}")
    return int(text)
