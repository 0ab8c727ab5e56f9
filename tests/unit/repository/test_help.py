"""Every command says in its help what it does and how it is used, in the same layout."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from efim_ls.cli import build_parser
from efim_ls.commands import lab
from efim_ls.commands.arguments import Parser, actions, all_parsers, subparsers

COMMAND = re.compile(r"efim-ls[^|<>)\n]*")  # a command line within a line of a shell


def every_parser() -> Iterator[argparse.ArgumentParser]:
    """All parsers, `train`'s own in place of the empty one that only names it."""
    yield from (each for each in all_parsers(build_parser()) if each.prog != "efim-ls train")
    scratch, finetuning = lab.train_parsers()
    yield from all_parsers(scratch)
    yield finetuning


PARSERS = list(every_parser())
NAMES = [f"{each.prog} ({number})" for number, each in enumerate(PARSERS)]


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """The command lines below the heading of a parser's examples."""
    heading, *lines = (parser.epilog or "").splitlines()
    assert heading in ("example:", "examples:")
    indented = lines[: next((n for n, line in enumerate(lines) if not line.startswith("  ")), None)]
    return [line.strip() for line in indented]


def parse(words: list[str]) -> None:
    """Parse arguments as the command line does; exits if they are wrong."""
    if words[:1] != ["train"]:
        build_parser().parse_args(words)
        return
    scratch, finetuning = lab.train_parsers()
    (finetuning if "--base" in words else scratch).parse_args(words[1:])


def test_every_command_is_looked_at() -> None:
    names = {each.prog for each in PARSERS}
    assert {"efim-ls", "efim-ls serve", "efim-ls bench efim-paper", "efim-ls train run", "efim-ls train"} <= names
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
        parse(command.split()[1:])


def test_the_help_lists_each_command_once_and_those_for_engineers_last() -> None:
    parser = build_parser()
    users, _, engineers = parser.format_help().partition("commands for engineers:\n")
    listed = [
        re.findall(r"^  ([a-z]+)  ", part.partition("\n\noptions:")[0], re.MULTILINE) for part in (users, engineers)
    ]
    assert listed[0] + listed[1] == list(subparsers(parser))
    assert listed[1] == ["context", "replay", "eval", "bench", "train"]
    assert "-h, --help" in engineers and engineers.endswith(f"{parser.epilog}\n")


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_every_argument_is_explained(parser: argparse.ArgumentParser) -> None:
    shown = [each for each in actions(parser) if not isinstance(each, argparse._SubParsersAction)]
    assert all(each.help for each in shown)
    assert all(each.metavar or each.choices or each.option_strings for each in shown)
