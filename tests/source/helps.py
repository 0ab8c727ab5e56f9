"""What every command's help has: what the command does, how it is used and each argument, in one layout."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from efim_ls.commands.arguments import Parser, actions, subparsers

COMMAND = re.compile(r"(?:efim-ls|python -m efim_lab)[^|<>)\n]*")  # a command line within a line of a shell


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """Return the command lines below the heading of a parser's examples."""
    heading, *lines = (parser.epilog or "").splitlines()
    assert heading in ("example:", "examples:")
    indented = lines[: next((n for n, line in enumerate(lines) if not line.startswith("  ")), None)]
    return [line.strip() for line in indented]


def check_layout(parser: argparse.ArgumentParser) -> None:
    """Assert that a parser has a description and an example, short enough for a terminal."""
    assert isinstance(parser, Parser) and parser.formatter_class is argparse.RawDescriptionHelpFormatter
    assert parser.description and parser.description[0].isupper() and parser.description.endswith(".")
    assert examples(parser)
    assert all(len(line) <= 78 for line in [*parser.description.splitlines(), *examples(parser)])


def check_examples(parser: argparse.ArgumentParser, parse: Callable[[str], object]) -> None:
    """Assert that a parser's examples are of its command, and that `parse`, which exits on mistakes, takes them."""
    for line in examples(parser):
        [command] = COMMAND.findall(line.partition(" > ")[0])
        assert command.startswith(parser.prog)
        parse(command)


def check_listing(parser: Parser) -> None:
    """Assert that a parser's help lists each of its commands once."""
    listed = re.findall(r"^    ([a-z-]+)(?:  |$)", parser.format_help().partition("\n\noptions:")[0], re.MULTILINE)
    assert listed and listed == list(subparsers(parser))


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Assert that each argument is explained."""
    shown = [each for each in actions(parser) if not isinstance(each, argparse._SubParsersAction)]
    assert all(each.help for each in shown)
    assert all(each.metavar or each.choices or each.option_strings for each in shown)
