"""Every command of the laboratory says in its help what it does and how it is used, in one layout."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from efim_lab.commands import PROGRAM, build_parser
from efim_lab.workshop.training import command as training
from efim_lab.workshop.training.finetune import command as finetuning
from efim_ls.commands.arguments import all_parsers
from tests.source.helps import check_arguments, check_examples, check_layout, check_listing

TRAIN = f"{PROGRAM} train"


def every_parser() -> Iterator[argparse.ArgumentParser]:
    """All parsers of the command line, `train`'s own in place of the empty one that only names it."""
    yield from (each for each in all_parsers(build_parser()) if each.prog != TRAIN)
    yield from all_parsers(training.build_parser())
    yield finetuning.build_parser()


PARSERS = list(every_parser())
EVERY = pytest.mark.parametrize("parser", PARSERS, ids=[f"{each.prog} ({n})" for n, each in enumerate(PARSERS)])


def parse(command: str) -> None:
    if command.startswith(TRAIN):
        step = finetuning if "--base" in command else training
        step.build_parser().parse_args(command.removeprefix(TRAIN).split())
    else:
        build_parser().parse_args(command.removeprefix(PROGRAM).split())


def test_every_command_is_looked_at() -> None:
    names = {each.prog for each in PARSERS}
    assert {f"{PROGRAM}{each}" for each in ("", " eval", " bench efim-paper", " train run", " train")} <= names
    assert len(PARSERS) > 20


@EVERY
def test_it_has_a_description_and_an_example_in_one_layout(parser: argparse.ArgumentParser) -> None:
    check_layout(parser)


@EVERY
def test_its_examples_parse(parser: argparse.ArgumentParser) -> None:
    check_examples(parser, parse)


@EVERY
def test_every_argument_is_explained(parser: argparse.ArgumentParser) -> None:
    check_arguments(parser)


def test_the_help_lists_each_command_once() -> None:
    check_listing(build_parser())
