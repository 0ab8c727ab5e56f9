"""A small repository typed line by line: what lacks an import is told, and offers are judged by all imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.gate.next_edit.imports import import_figures, typed
from tests.unit.commits import commit

FILES = {
    "shapes/__init__.py": "",
    "shapes/area.py": "class Square:\n    pass\n\n\nclass Circle:\n    pass\n",
    "shapes/draw.py": "from .area import Circle, Square\n\nprint(Square(), 1)\nprint(Circle(), 2)\n",
    "shapes/other.py": "from .area import Square\n\nprint(Square(), 3)\n",
    "shapes/local.py": "Square = 1\nprint(Square)\n",
}


def test_each_import_is_missed_once_and_each_line_is_typed(tmp_path: Path) -> None:
    files = {path: text for path, text in FILES.items() if path != "shapes/local.py"}
    rows = list(typed(commit(tmp_path, files)))
    assert [row.verdict for row in rows if row.lacks] == ["found"] * 3
    assert {row.verdict for row in rows if not row.lacks} == {"silent"}
    right = [row.example.right for row in rows if row.lacks and row.example]
    assert right == [[True]] * 3
    figures = import_figures(rows)
    assert (figures.lacking, figures.found, figures.lines, figures.precision) == (3, 1.0, 7, 1.0)


def test_a_name_that_two_files_define_need_not_be_found(tmp_path: Path) -> None:
    rows = [row for row in typed(commit(tmp_path, FILES)) if row.lacks]
    assert len(rows) == 1 and rows[0].verdict == "found"


def test_an_offer_where_nothing_is_lacking_is_loud(tmp_path: Path) -> None:
    files = FILES | {"shapes/local.py": "def draw():\n    return Square(4), 5\n"}
    assert "loud" in {row.verdict for row in typed(commit(tmp_path, files))}


def test_a_folder_without_sources_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="no source file"):
        list(typed(commit(tmp_path, {"shapes/a.txt": "a\n"})))
