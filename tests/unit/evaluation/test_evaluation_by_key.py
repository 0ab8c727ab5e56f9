"""Suggestions asked for by a key: where, and how each is judged."""

from __future__ import annotations

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.by_key.judged import imported, is_head, is_unfinished, says_again
from efim_lab.gate.evaluation.by_key.measurement import KeyAnswer, KeyArm, PackageModules, is_there
from efim_lab.gate.evaluation.by_key.places import KeyPlace, choose_key_places
from efim_lab.gate.evaluation.by_key.report import key_figures, table

CODE = '''"""Adds."""

def total(values,
          start=0):
    if not values:
        return start
    return sum(values,
               start)
'''


def answer(place: KeyPlace, arm: KeyArm, *texts: str) -> KeyAnswer:
    judged = [text.endswith("(") for text in texts]
    return KeyAnswer(arm, place, texts, tuple(judged), *[(False,) * len(texts)] * 3, milliseconds=9, beyond_first=3)


def test_places_lie_inside_lines_and_where_statements_begin() -> None:
    places = choose_key_places([CodeDocument("a/a.py", CODE), CodeDocument("b/old.py", "print 1\n")], 100)
    begun = {
        place.line.document.text[place.cursor :].partition("\n")[0] for place in places if not place.before.strip()
    }
    statements = [place for place in places if place.kind == "statements"]
    assert {place.rest for place in statements} == {
        '"""Adds."""', "def total(values,", "if not values:", "return start", "return sum(values,"
    }  # fmt: skip
    assert {place.rest for place in statements} <= begun
    assert sum(place.kind == "in lines" for place in places) == 8
    assert choose_key_places([CodeDocument("a/a.py", CODE)], 2)[2:] != places[2:]


@pytest.mark.parametrize(
    ("above", "before", "text", "unfinished"),
    [
        ("", "", "x = 1", False),
        ("", "", "x =", True),
        ("", "", "from os", True),
        ("", "", "assert isinstance(event,", True),
        ("", "", "raise ValueError(", True),
        ("", "", "@property", True),
        ("", "", "class A:\n    @property", True),
        ("", "", "if x:", False),
        ("", "", "try:", False),
        ("try:\n    x = 1\n", "", "except ValueError:", False),
        ("if x:\n    x = 1\n", "", "elif y", True),
        ("def f():\n", "    ", "return [\n        1,\n    ]", False),
        ("def f():\n", "    ", "return [\n        1,", True),
        ("x = [\n", "    ", "1,", False),
        ("x = [\n", "    ", "one.two", False),
        ("x = [\n", "    ", "key =", True),
        ("x = [\n", "    ", "call(1,", True),
        ('"""A text\n', "", "that goes on,", False),
        ('"""A text\n', "", 'that ends."""\nx = (', True),
        ("", "", '"""A text\nthat goes on', True),
        ("", 'x = "', "abc", True),
        ("", 'x = "', 'abc"', False),
        ("", "x = ", "1  # one", False),
        ("", "x = ", "1 ? 2", True),
    ],
)  # fmt: skip
def test_a_suggestion_is_unfinished_within_a_statement(above: str, before: str, text: str, unfinished: bool) -> None:
    assert is_unfinished(above, before, text) is unfinished


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("x = 1\nx = 1", False),
        ("register_the_first_handler()\nregister_the_first_handler()", True),
        ("This is a cleared version of the UI, which is a cleared version of the UI, which is", True),
        ("one two three four five six seven one two three", False),
        ('print("MMMMMMMMMM")', True),
        ("# ----------", False),
    ],
)
def test_a_suggestion_says_something_again(text: str, again: bool) -> None:
    assert says_again(text) is again
    assert not is_head(text) and is_head(f"{text}\nelse:\n")


@pytest.mark.parametrize(
    ("before", "text", "found"),
    [
        (
            "",
            "import os, json as j\nfrom a.b import c as d, e",
            [("os", ""), ("json", ""), ("a.b", "c"), ("a.b", "e")],
        ),
        ("from os", " import path", [("os", "path")]),
        ("import os", "", []),
        ("", "from .a import b\nx = 1", []),
    ],
)
def test_what_a_suggestion_imports(before: str, text: str, found: list[tuple[str, str]]) -> None:
    assert list(imported(before, text)) == found


def test_a_package_can_import_the_library_itself_and_what_its_files_import() -> None:
    documents = [
        CodeDocument("one/a.py", "import numpy.linalg\nimport csv\n"),
        CodeDocument("two/b.py", "import rich\n"),
    ]
    view = PackageModules(documents).view(documents[0], documents[0].text)
    there = [("csv", "DictReader"), ("one.other", "x"), ("numpy.random", "x"), ("json", "nothing"), ("csv", "*")]
    assert all(is_there(view, *each) for each in there), "of a module that was not read nothing is known"
    assert not any(is_there(view, *each) for each in [("rich", ""), ("csv", "Dictionary"), ("two.b", "")])
    text = "import rich"
    expected = view.expected("file:///a.py", text, len(text))
    assert expected and not expected.names.may_have("rich") and expected.names.may_have("numpy")


def test_figures_are_shares_of_places_and_of_texts() -> None:
    documents = [CodeDocument("a/a.py", CODE)]
    place, *_, other = (each for each in choose_key_places(documents, 100) if each.kind == "statements")
    answers = [
        answer(place, "alone", "no", f"{place.rest}\n    more", "no ()"),
        answer(other, "alone", "total(", "n o", "no"),
        answer(place, "workspace", place.rest),
    ]
    found = key_figures(answers, 3)
    alone, workspace = found["statements, alone"], found["statements, workspace"]
    assert alone.right_first and (alone.right_first.value, alone.places, alone.texts) == (0, 2, 6)
    assert alone.right_in_any and alone.right_in_any.value == 0.5
    assert alone.unfinished and alone.unfinished.value == pytest.approx(1 / 6)
    assert alone.distinct == 2.5 and workspace.right_first and workspace.right_first.value == 1
    assert {*found} == {f"{kind}, {arm}" for kind in ("statements", "all") for arm in ("alone", "workspace")}
    assert "| statements, alone     | 2      | 6     | 2.50" in table({"embedded": found})
