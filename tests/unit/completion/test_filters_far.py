"""What filters see of a long file: some of them all of it, and the parser what it needs to know the blocks."""

from __future__ import annotations

import pytest

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.place import NEIGHBOURHOOD, Place, place_at

FAR = "".join(f"    value_{number} = {number}\n" for number in range(NEIGHBOURHOOD))
HELPERS = "def load_rows(path):\n    rows = read(path)\n    rows.sort()\n    return rows\n\n\n"


def cleaned(head: str, text: str, language: str = "python", below: str = "") -> str:
    above, _, before = head.rpartition("\n")
    return clean(text, Place(before, "", f"{above}\n", below, language), max_lines=12)[0]


def test_a_place_holds_the_whole_text_and_the_other_texts() -> None:
    text = f"a = 1\n{FAR}b = \nc = 3\n{FAR}"
    place = place_at(text, text.index("\nc"), "python", ("d = 4",))
    assert place == Place("b = ", "", f"a = 1\n{FAR}", f"c = 3\n{FAR}", "python", ("d = 4",))
    assert len(place.near_above) == len(place.near_below) == NEIGHBOURHOOD
    assert place.above.endswith(place.near_above) and place.below.startswith(place.near_below)


@pytest.mark.parametrize("above", [True, False])
def test_copies_of_far_lines_are_seen(above: bool) -> None:
    far, copy = f"def f():\n{FAR}", "rows = read(path)\n    rows.sort()\n    return rows"
    head = f"{HELPERS if above else ''}{far}\n\ndef g(path):\n    "
    assert cleaned(head, copy, below="" if above else f"\n{far}{HELPERS}") == "rows = read(path)"


def test_a_far_definition_is_seen() -> None:
    assert cleaned(f"{HELPERS}def f():\n{FAR}\n\n", "def load_rows(path):\n    return 1") == ""


def test_a_far_method_of_the_same_class_is_seen_and_one_of_another_class_is_not() -> None:
    body = FAR.replace("    ", "        ")
    one, other = f"class A:\n    def load(self):\n{body}\n", "class B:\n    x = 1\n\n"
    assert cleaned(f"{one}    ", "def load(self):\n        return 1") == ""
    assert cleaned(f"{one}{other}    ", "def load(self):\n        return 1") == "def load(self):\n        return 1"


def test_a_far_name_is_known() -> None:
    assert cleaned(f"{HELPERS}def f():\n{FAR}    x = ", "load_rows(value_1)") == "load_rows(value_1)"
    assert cleaned(f"def f():\n{FAR}    x = ", "load_rows(value_1)") == ""


@pytest.mark.parametrize("indent", ["    ", "        "])
def test_blocks_that_begin_far_above_are_no_error(indent: str) -> None:
    body = FAR.replace("    ", "        ")
    text = f"value_1 = 2\n{indent}return value_1"
    assert cleaned(f"class A:\n    def load(self):\n{body}{indent}", text) == text
    broken = f"value_1 = 2\n{indent}except ValueError:\n{indent}    return value_1"
    assert cleaned(f"class A:\n    def load(self):\n{body}{indent}", broken) == "value_1 = 2"


def test_a_class_in_braces_that_begins_far_above_is_found() -> None:
    methods = "".join(f"  size{number}() {{\n    return {number};\n  }}\n" for number in range(100))
    head, right = f"class A extends B {{\n{methods}  ", "get size() {\n    return 1;\n  }"
    assert cleaned(head, right, "javascript") == right
    assert cleaned(head, "get size() {\n    return 1;\n    else {", "javascript") == "get size() {\n    return 1;"


def test_a_string_that_begins_far_above_is_not_judged() -> None:
    prose = "".join(f"    Line {number} of the text, which goes on (and on\n" for number in range(200))
    text = "except for this: it is\n      no code of any kind"
    assert cleaned(f'def f():\n    """Say it.\n\n{prose}    ', text) == text


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_name_space_that_begins_far_above_may_be_closed(language: str) -> None:
    lines = "".join(f"int size_{number}();\n" for number in range(NEIGHBOURHOOD // 10))
    assert cleaned(f"namespace shop {{\n{lines}", "} // namespace shop", language) == "} // namespace shop"
    assert cleaned(lines, "} // namespace shop", language) == ""
