"""Phrases of several lines that were said at another depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.depth import phrase_depth
from efim_ls.completion.filters.place import Place


def drawn(indent: str, depth: str = "\t") -> str:
    return f"{indent}if err != nil {{\n{indent}{depth}return err\n{indent}}}\n"


@pytest.mark.parametrize(
    ("before", "said", "moved"),
    [
        ("\t\tif err", drawn("\t"), " != nil {\n\t\t\treturn err\n\t\t}"),
        ("\tif err", drawn("\t\t\t"), " != nil {\n\t\treturn err\n\t}"),
        ("    if err", drawn("        ", "    "), " != nil {\n        return err\n    }"),
        ("\tif err", drawn("\t", "    "), " != nil {\n\t    return err\n\t}"),
    ],
    ids=["deeper", "less deep", "with spaces", "as deep, in its own way"],
)
def test_the_lines_of_a_phrase_move_with_its_first_line(before: str, said: str, moved: str) -> None:
    text = said.split("err", 1)[1].rstrip("\n")
    assert phrase_depth(text, Place(before, "", f"{said}\n", "", "go")) == moved
    assert phrase_depth(text, Place(before, "", "", "", "go", (said,))) == moved
    assert phrase_depth(moved, Place(before, "", f"{said}\n", "", "go")) == moved


def test_of_several_places_the_nearest_above_decides_unless_one_is_as_deep() -> None:
    second, other, same = "\t\t\t\treturn err", drawn("\t\t", "\t\t"), drawn("\t", "\t\t\t")
    for above, moved in ((drawn("\t\t\t") + other, "\t\t\treturn err"), (same + other, second)):
        assert phrase_depth(f" != nil {{\n{second}", Place("\tif err", "", above, "")) == f" != nil {{\n{moved}"


def test_a_phrase_of_unseen_files_stays() -> None:
    place = Place("  if (ready)", "", "a {\n  b();\n}\n", "", "typescript")
    assert phrase_depth(" {\n        start();\n      }", place) == " {\n        start();\n      }"


@given(st.text("ab {\n\t "), st.text("ab {\t "), st.text("ab {\n\t "))
def test_only_the_indentation_of_further_lines_changes(text: str, before: str, above: str) -> None:
    place = Place(before, "", f"{above}\n", "")
    moved = phrase_depth(text, place)
    assert [line.strip() for line in moved.split("\n")] == [line.strip() for line in text.split("\n")]
    assert moved.split("\n")[0] == text.split("\n")[0]
