import ast
import re

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from efim_lab.workshop.training.corpus.python.cleanup import clean, without_tool_comments

PRAGMAS = [
    "# pragma: no cover",
    "# type: ignore[arg-type]",
    "# noqa: E501",
    "#noqa",
    "# pylint: disable=invalid-name",
    "# mypy: allow-untyped-defs",
    "# fmt: off",
    "# isort: skip_file",
    "# pyright: strict",
    "# nosec",
    "# flake8: noqa",
    "# -*- coding: utf-8 -*-",
    "# coding=utf-8",
    "# vim: set ts=4 sw=4 et:",
    "# ruff: noqa: F401",
    "# type: ignore # noqa: E501",
]
# {c} stands for a comment at a line's end, {C} for lines of comments; inside strings, too.
BLOCKS = [
    "x = 1{c}\n",
    "{C}",
    "\n\n",
    "def f(a):{c}\n{C}    return a{c}\n",
    "if x:\n    y = [{c}\n{C}        2,{c}\n\n{C}    ]\nelse:{c}\n    pass\n",
    "x = 3 + \\\n  4{c}\n",
    "x = 3 \\\n{C}",
    "s = '''{c}\n{C}\n'''{c}\n",
    'class A:{c}\n    """{c}\n{C}    """{c}\n',
    'f"{{x}}{c}"{c}\n',
    "s = r'\\'{c}'\n",
    "s = 'a\\\n{c}'\n",
]
COMMENTS = ["# Copyright 2020 A. Person", "# All rights reserved.", "# what this does", *PRAGMAS]


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Draw Python with comments in every kind of place."""
    endings = st.sampled_from(["", *(f"  {comment}" for comment in COMMENTS)])
    lines = st.lists(st.sampled_from([f"{indent}{c}\n" for indent in ("", "    ") for c in COMMENTS]), max_size=3)
    blocks = draw(st.lists(st.sampled_from(BLOCKS), max_size=6))
    drawn = (re.sub("{c}", lambda _: draw(endings), block) for block in blocks)
    return "".join(re.sub("{C}", lambda _: "".join(draw(lines)), block) for block in drawn).replace("{{x}}", "{x}")


@pytest.mark.parametrize("pragma", PRAGMAS)
def test_pragmas_go_with_the_blanks_before_them_or_with_their_line(pragma: str):
    assert without_tool_comments(f"x = 1  {pragma}\n    {pragma}\ny = 2\n") == "x = 1\ny = 2\n"


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # what it is",
        "x: list = []  # type: list[int]",
        "# ex: three of them",
        "# the encoding: what bytes mean",
        "# fmt: %Y-%m-%d",
        "s = '# noqa'",
        '"""# type: ignore"""',
    ],
)
def test_other_comments_and_strings_stay(line: str):
    text = f"import a  # noqa\n{line}\n"
    assert without_tool_comments(text) == f"import a\n{line}\n"


def test_words_around_a_pragma_stay():
    text = "import a  # the API  # noqa: F401\nimport b  # noqa: F401  # the reason\n"
    assert without_tool_comments(text) == "import a  # the API\nimport b  # the reason\n"


def test_blank_lines_around_a_removed_line_do_not_add_up():
    assert without_tool_comments("x = 1\n\n# fmt: off\n\n\ny = 2\n") == "x = 1\n\n\ny = 2\n"


def test_a_comment_that_ends_a_continued_line_stays():
    text = "x = 1 \\\n# noqa\ny = 2\n"
    assert without_tool_comments(text) == text


def test_what_is_not_python_is_returned_unchanged():
    text = "print '''  # noqa\n"
    assert without_tool_comments(text) == text


@given(sources())
def test_code_and_strings_are_the_same_without_comments(text: str):
    try:
        before = ast.dump(ast.parse(text))
    except SyntaxError:
        event("not Python")
        return
    cleaned = without_tool_comments(text)
    event("cleaned" if cleaned != text else "unchanged")
    assert ast.dump(ast.parse(cleaned)) == before


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ('"""Does this.\n\n:copyright: A. Person\n:license: BSD\n"""\nx = 1\n', '"""Does this."""\nx = 1\n'),
        ('"""Does this."""\n\n# Copyright A. Person\n# who wrote it\n\nx = 1\n', '"""Does this."""\n\nx = 1\n'),
        ("import a\n\n# SPDX-License-Identifier: MIT\nx = 1\n", "import a\n\nx = 1\n"),
        ('"""\nThe MIT License\n\nPermission is hereby granted.\n"""\n\nx = 1\n', "x = 1\n"),
        ('"""Does this.\n\nAuthor: A. Person\n"""\nx = 1\n', '"""Does this."""\nx = 1\n'),
        ("# Copyright A. Person\n\nx = 1\n", "x = 1\n"),
        ("# What this does.\n\n# See the licence.\nx = 1\n", "x = 1\n"),
        ("x = 1\n\n# reads the licence\ny = 2\n", "x = 1\n\n# reads the licence\ny = 2\n"),
    ],
)
def test_licences_go_and_what_stands_beside_them_stays(text: str, cleaned: str):
    assert clean(text) == cleaned


def test_dunder_names_about_authors_go_where_nothing_uses_them():
    text = '__author__ = "A. Person"\n__license__ = (\n    "MIT"\n)\n__version__ = "1"\n\nx = 1\n'
    assert clean(text) == '__version__ = "1"\n\nx = 1\n'
    used = '__author__ = "A. Person"\nprint(__author__)\n'
    assert clean(used) == used
    beside = '__author__ = "A. Person"; x = 1\n'
    assert clean(beside) == beside
