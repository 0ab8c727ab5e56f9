"""Spans that are taken out before code, and the figures of what fills them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.figures.intervals import proportion
from efim_lab.gate.evaluation.inside_line import (
    LONGEST_HOLE,
    SERVED,
    SHORTEST_HOLE,
    UNCUT,
    Hole,
    InsideLineReport,
    choose_holes,
    hole_figures,
    table,
)
from efim_lab.gate.evaluation.places.cursors import Context
from model_runtime.engine.stops import is_closers

TEXTS = st.lists(st.text(" \tab_(=é):", max_size=40), min_size=1, max_size=20).map("\n".join)


def drawn(hole: Hole) -> tuple[str, str, str]:
    return hole.context.typed, hole.span, hole.rest


@given(TEXTS)
def test_a_hole_is_a_span_of_a_line_before_code(text: str) -> None:
    holes = choose_holes([CodeDocument("a.py", text)], 1000)
    lines = text.split("\n")
    for hole in holes:
        context, line = hole.context, "".join(drawn(hole))
        assert (context.head + line + "\n" + context.tail).rstrip("\n") == text.rstrip("\n")
        assert SHORTEST_HOLE <= len(hole.span) <= LONGEST_HOLE and hole.span.strip()
        assert len(context.typed) >= len(line) - len(line.lstrip())
        assert not is_closers(hole.rest)
        assert not f"{hole.span[-1]}{hole.rest[0]}".replace("_", "a").isalnum()
    chosen = ["".join(drawn(hole)) for hole in holes]
    assert all(chosen.count(line) <= lines.count(line) for line in chosen)


@pytest.mark.parametrize(
    ("line", "spans"),
    [
        ("ab = c", {"ab", "ab ", "b ", "ab =", "b =", " =", "ab = ", "b = ", " = ", "= "}),
        ("f(x):", {"f("}),
        ("  a_b.c)", {"a_b", "_b", "a_b.", "_b.", "b."}),
        ("a" * 30 + " b", {"a" * n for n in range(2, 21)} | {"a" * n + " " for n in range(1, 20)}),
        ("abc", set[str]()),
        ("f()", set[str]()),
        ("a  # b  ", {"a ", "a  ", "a  #", "  #", " #", "a  # ", "  # ", " # ", "# "}),
    ],
)
def test_every_span_may_be_chosen(line: str, spans: set[str]) -> None:
    holes = choose_holes([CodeDocument("a.py", "\n".join([line] * 300))], 300)
    assert {hole.span for hole in holes} == spans
    assert len(holes) == (300 if spans else 0)


def test_fewer_holes_are_the_first_of_more_in_any_run() -> None:
    documents = [
        CodeDocument("a.py", "import os\n\n\nclass A:\n    b = os.name\n"),
        CodeDocument("b.py", "print(1, 2)\n"),
    ]
    holes = choose_holes(documents, 100)
    assert choose_holes(documents, 2) == holes[:2]
    assert [drawn(hole) for hole in holes] == GOLDEN


GOLDEN = [("    b ", "= os", ".name"), ("im", "port ", "os"), ("", "class ", "A:"), ("pr", "int(1", ", 2)")]


def hole(span: str) -> Hole:
    return Hole(Context("", "", "", 1), span, "+ 1")


def test_the_figures_of_suggestions() -> None:
    found = hole_figures([hole("ab "), hole("ab"), hole("c"), hole("d")], ["ab", "ax", "", " "])
    assert found.exact == proportion([True, False, False, False])
    assert found.shown == proportion([True, True, False, False])
    assert found.exact_of_shown == proportion([True, False])
    assert found.similarity.value == pytest.approx((1 + 0.5) / 4)
    assert hole_figures([hole("a")], [""]).exact_of_shown is None


def test_several_models_stand_side_by_side_way_by_way() -> None:
    ways = {UNCUT: hole_figures([hole("ab")], ["ab"]), SERVED: hole_figures([hole("ab")], [""])}
    title, _, header, _, *rows = table(
        {"one": InsideLineReport(1234, ways), "two": InsideLineReport(1234, ways)}
    ).split("\n")
    assert (
        title == "Inside a line: 1,234 spans of 2 to 20 characters taken out before code, 95 % intervals in brackets"
    )
    assert [row.split("|")[1].strip() for row in rows] == [f"{way}, {n}" for way in ways for n in ("one", "two")]
    assert [row.count("[") for row in rows] == [4, 4, 3, 3]
    assert "| 100.0 [20.7, 100.0] " in rows[0] and len(rows[0]) == len(header)
    assert table({"one": InsideLineReport(1234, ways)}).split("\n")[4].startswith(f"| {UNCUT} ")
