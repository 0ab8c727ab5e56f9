"""Every command of the product and of the gate says in its help what it does and how it is used, in one layout."""

from __future__ import annotations

import argparse

import pytest

from efim_lab.gate.commands import cli as gate
from efim_ls.cli import build_parser
from efim_ls.commands.arguments import Parser, all_parsers
from tests.source.helps import check_arguments, check_examples, check_layout, check_listing

PRODUCT, GATE = build_parser(), gate.build_parser()
PARSERS = [*all_parsers(PRODUCT), *all_parsers(GATE)]
EVERY = pytest.mark.parametrize("parser", PARSERS, ids=[f"{each.prog} ({n})" for n, each in enumerate(PARSERS)])


def parse(command: str) -> None:
    if command.startswith(gate.PROGRAM):
        GATE.parse_args(command.removeprefix(gate.PROGRAM).split())
    else:
        PRODUCT.parse_args(command.split()[1:])


def test_every_command_is_looked_at() -> None:
    names = {each.prog for each in PARSERS}
    assert {"efim-ls", "efim-ls serve", "efim-ls context"} <= names
    assert {f"python -m efim_lab{each}" for each in ("", " eval", " replay", " team", " next-edit")} <= names
    assert len(PARSERS) > 15


@EVERY
def test_it_has_a_description_and_an_example_in_one_layout(parser: argparse.ArgumentParser) -> None:
    check_layout(parser)


@EVERY
def test_its_examples_parse(parser: argparse.ArgumentParser) -> None:
    check_examples(parser, parse)


@EVERY
def test_every_argument_is_explained(parser: argparse.ArgumentParser) -> None:
    check_arguments(parser)


@pytest.mark.parametrize("parser", [PRODUCT, GATE], ids=lambda parser: parser.prog)
def test_the_help_lists_each_command_once(parser: Parser) -> None:
    check_listing(parser)
