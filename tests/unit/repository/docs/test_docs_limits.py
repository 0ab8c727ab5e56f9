"""What users read first stays short: the README, the glossary, and the table that the benchmarks begin with."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import pytest

from efim_ls.completion.planning import planner
from efim_ls.settings import DESCRIPTIONS

ROOT = Path(__file__).parents[4]
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
LONGEST_TABLE = 10  # lines, the two of its head among them
LONGEST_BENCHMARKS = 1_000  # words
LONGEST_README = 85  # lines
LONGEST_MAP = 165  # lines of ARCHITECTURE.md
MOST_TERMS = 18  # in its table of words
MOST_WORDS = 15  # of the glossary


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def first_table(path: Path) -> list[str]:
    text = lines(path)
    start = next(number for number, line in enumerate(text) if line.startswith("|"))
    return list(takewhile(lambda line: line.startswith("|"), text[start:]))


def test_the_benchmarks_begin_with_a_short_table() -> None:
    title, empty, first, *_ = lines(BENCHMARKS)
    assert (title, empty, first[0]) == ("# Benchmarks", "", "|")
    assert len(first_table(BENCHMARKS)) <= LONGEST_TABLE


def test_every_figure_of_that_table_has_a_link_to_what_prints_it() -> None:
    _, _, *rows = first_table(BENCHMARKS)
    assert [row for row in rows if "](benchmarks/" not in row and "| the same |" not in row] == []


def test_the_first_page_of_the_benchmarks_is_short() -> None:
    assert len(BENCHMARKS.read_text("utf-8").split()) <= LONGEST_BENCHMARKS


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "benchmarks").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_of_benchmarks_is_named_in_the_first(page: Path) -> None:
    assert f"](benchmarks/{page.name})" in BENCHMARKS.read_text("utf-8")


def test_the_readme_is_short_and_its_comparison_too() -> None:
    readme = ROOT / "README.md"
    assert len(lines(readme)) <= LONGEST_README
    assert len(first_table(readme)) <= LONGEST_TABLE


def test_the_readme_counts_the_basic_settings() -> None:
    named = re.findall(
        r"\[the (\d+) that matter\]\(docs/settings\.md#basic\)", (ROOT / "README.md").read_text("utf-8")
    )
    assert [int(each) for each in named] == [sum(about.basic for about in DESCRIPTIONS.values())]


def test_the_map_is_short_and_its_table_of_words_too() -> None:
    """What goes into one subject has a page of its own in docs/."""
    architecture = ROOT / "ARCHITECTURE.md"
    _, _, *terms = first_table(architecture)
    assert len(lines(architecture)) <= LONGEST_MAP
    assert 0 < len(terms) <= MOST_TERMS


def test_a_planning_rule_is_one_line_on_the_map_and_its_reason_is_in_the_planner() -> None:
    rules = re.findall(r"^- \*\*(R\d+) .+\n(?! )", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE)
    assert rules == [f"R{number}" for number in range(1, len(rules) + 1)] and rules
    assert rules == re.findall(r"^(R\d+) ", planner.__doc__ or "", re.MULTILINE)


def test_no_command_needs_an_address_that_the_reader_must_know() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page.name for page in pages if "<URL" in page.read_text("utf-8")] == []


def test_the_glossary_has_few_words() -> None:
    _, _, *rows = first_table(ROOT / "docs" / "glossary.md")
    assert 0 < len(rows) <= MOST_WORDS
