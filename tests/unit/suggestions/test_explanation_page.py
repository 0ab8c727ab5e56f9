"""The page that explains a suggestion, as sections that clients paint."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.completion.suggestions.explanation_page import PageSpan, sections
from tests.explanations import EXPLAINED, word

GOLDEN = Path(__file__).parents[2] / "golden" / "clients" / "explanation.txt"
URI = "file:///home/me/project/a%20b.py"
HERE = ("Suggestion", "Hidden suggestion", "Where each word comes from", "")


def spelled(span: PageSpan) -> str:
    more = " ".join(f"{name}={value}" for name, value in span.items() if name != "text")
    return f"  {span['text']!r} {more}".rstrip()


def drawn(**changes: object) -> str:
    """The page as text: a line for each section, row and span."""
    lines = list[str]()
    for section in sections({**EXPLAINED, **changes}, URI, 3, 5):
        lines.append(f"{section['kind']}: {section['title']}")
        lines += (line for row in section["rows"] for line in ["-", *map(spelled, row)])
    return "".join(f"{line}\n" for line in lines)


def said(**changes: object) -> list[str]:
    [status, *_] = sections({**EXPLAINED, **changes}, URI, 3, 5)
    return ["".join(span["text"] for span in row) for row in status["rows"]]


def test_the_page_is_the_golden_one() -> None:
    assert drawn() == GOLDEN.read_text("utf-8")


def test_a_reason_comes_first_with_the_suggestion_that_is_hidden() -> None:
    hidden = {"shown": "", "hidden": "area", "words": [word("area", 0.125)]}
    status, text, *_ = sections({**EXPLAINED, "why": "the model is unsure", "suggestion": hidden}, URI, 3, 5)
    assert status["rows"] == [[{"text": "No suggestion: the model is unsure", "style": "message"}]]
    assert text["title"] == HERE[1]
    assert text["rows"] == [[{"text": "area", "style": "hidden", "hint": "12% sure, hidden"}]]


def test_a_source_in_place_of_the_models_guess_is_in_the_table() -> None:
    words = [word("iffer", 0.75, source="from csv in the standard library")]
    page = drawn(suggestion={"shown": "iffer", "hidden": "", "words": words})
    assert "  'from csv in the standard library'\n" in page
    assert "hint=75% sure, from csv in the standard library\n" in page
    assert "'model' style=model" not in page


@pytest.mark.parametrize(
    ("suggested", "notice", "lines"),
    [
        (True, None, ["This was suggested here."]),
        (True, "Python only", ["This was suggested here.", "Python only"]),
        (False, "Python only", ["Nothing was suggested here yet.", "Python only"]),
        (False, None, ["The model is asked for a suggestion here."]),
    ],
)
def test_the_status_speaks_of_the_place(suggested: bool, notice: str | None, lines: list[str]) -> None:
    suggestion = {"shown": "area", "hidden": "", "words": []} if suggested else None
    assert said(suggestion=suggestion, notice=notice) == lines


def test_a_suggestion_of_unknown_chances_has_no_table() -> None:
    suggestion = {"shown": "area", "hidden": "(x)", "words": []}
    _, text, following, *_ = sections({**EXPLAINED, "suggestion": suggestion}, URI, 3, 5)
    assert text["rows"] == [[{"text": "area(x)"}]] and following["title"] == "The next edit"


def test_without_a_prompt_there_are_no_costs() -> None:
    titles = [each["title"] for each in sections({**EXPLAINED, "parts": [], "rest": ""}, URI, 3, 5)]
    assert titles == ["Suggestion at a b.py:3:5", HERE[0], HERE[2], "", "The next edit"]


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///x/nb.ipynb#W0sZm", "nb.ipynb"), ("file:///C%3A/my%20page.py", "my page.py"),
        ("untitled:Untitled-1", "Untitled-1"), ("page", "page"), ("", ""),
    ],
)  # fmt: skip
def test_a_document_is_named_after_the_end_of_its_path(uri: str, name: str) -> None:
    assert sections(EXPLAINED, uri, 1, 1)[0]["title"] == f"Suggestion at {name}:1:1"
