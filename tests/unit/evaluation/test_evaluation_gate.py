"""What a least confidence leaves of suggestions, and of what kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.documents import CodeDocument
from efim_lab.errors import WorkError
from efim_lab.evaluation.confidence import LEVELS, RatedSuggestion, measure, report, table
from efim_lab.evaluation.figures.intervals import proportion
from efim_lab.evaluation.places.cursors import Context, CursorPlace
from model_runtime.checkpoint.config import EMBEDDED


def place(rest: str, typed: str = "x = ") -> CursorPlace:
    return CursorPlace(Context("", typed, "", 1), rest)


SAID = {
    "right and sure": (place("total"), RatedSuggestion("total ", 0.9)),
    "right and unsure": (place("total"), RatedSuggestion("total", 0.03)),
    "begins right": (place("total + 1"), RatedSuggestion("total - 12", 0.3)),
    "wrong": (place("total"), RatedSuggestion("to do", 0.01)),
    "too short": (place("total + 1"), RatedSuggestion("total", 0.06)),
    "nothing": (place("total"), RatedSuggestion(" ", 0.99)),
}


def test_what_is_shown_and_what_is_lost() -> None:
    found = report(*zip(*SAID.values(), strict=True))
    assert found.suggestions == 5
    all_shown, sure = found.levels[0.0], found.levels[0.05]
    assert (all_shown.shown.value, all_shown.wrong_kept) == (1.0, 1.0)
    assert all_shown.exact == proportion([True, True, False, False, False])
    assert sure.shown == proportion([True, False, True, False, True])
    assert sure.exact == proportion([True, False, False])
    assert sure.exact_kept == proportion([True, False])
    assert sure.first_word_kept == proportion([True, False, True, True])
    assert sure.wrong_kept == pytest.approx(4 / (4 + 3))


def test_shares_of_nothing_are_none() -> None:
    found = report([place("ab")], [RatedSuggestion("ab", 0.01)])
    assert found.levels[0.5].exact is None and found.levels[0.5].wrong_kept is None
    assert report([place("ab")], [RatedSuggestion("", 0.9)]).levels == {}


def test_the_table_has_a_row_for_each_level_and_model() -> None:
    one = report([place("ab")], [RatedSuggestion("ab", 0.1)])
    title, _, header, _, *rows = table({"one": one, "two": one}).split("\n")
    assert "of 1, 1" in title and len(rows) == 2 * len(LEVELS)
    assert rows[4].split("|")[1].strip() == "5%, one" and len(rows[4]) == len(header)
    assert table({"one": one}).split("\n")[4].startswith("| 0% ")


def test_the_embedded_models_confidence_is_measured_as_the_server_asks() -> None:
    code = "total = 0\nfor value in values:\n    total += value\n" * 3
    steps: list[tuple[str, int, int]] = []
    found = measure(EMBEDDED, [CodeDocument("a.py", code)], 4, lambda *step: steps.append(step))
    assert steps == [("embedded, confidence", done, 4) for done in range(5)]
    assert found.suggestions <= 4 and all(0 <= level.shown.value <= 1 for level in found.levels.values())


def test_data_without_code_is_an_error() -> None:
    with pytest.raises(WorkError, match="no line of code"):
        measure(Path("unused"), [], 4)
