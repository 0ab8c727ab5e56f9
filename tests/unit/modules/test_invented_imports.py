"""Imports in suggestions: of what is not installed, and of names that a module does not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.place import place_of
from efim_ls.request import Request
from efim_ls.workspace.modules.environment import Environment
from efim_ls.workspace.modules.table import ModuleTable
from tests.unit.modules.conftest import Learn, learned

ABOVE = "import made_up\nimport package\n\n\n"
FILES = {
    "made_up.py": "first = 1\nsecond = 2",
    "package/__init__.py": "",
    "package/part.py": "",
    "unread.pyi": "",
    "other_one.py": "",
}


def cleaned(table: ModuleTable, text: str, above: str = ABOVE) -> str:
    request = Request("file:///a.py", above, len(above), language="python", modules=table.view)
    return clean(text, place_of(request), 12)[0]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import unread\nimport other_one", "import unread\nimport other_one"),
        ("import unread\nimport packages\nx = 1", "import unread"),
        ("import package, packages\nx = 1", "import package,"),
        ("x = 1\nimport package.part", "x = 1\nimport package.part"),
        ("x = 1\nimport package.party", "x = 1"),
        ("x = 1\nimport made_up, packages as made", "x = 1"),
        ("x = 1\nfrom made_up import first, second as other", "x = 1\nfrom made_up import first, second as other"),
        ("x = 1\nfrom made_up import first, third", "x = 1"),
        ("x = 1\nfrom made_up import (\n    first,\n    third,\n)", "x = 1"),
        ("x = 1\nfrom unread import anything", "x = 1\nfrom unread import anything"),
        ("x = 1\nfrom .made_up import third", "x = 1\nfrom .made_up import third"),
        ("from made_up import (\n    first,\n    third,\n)", "from made_up import (\n    first,"),
        ("try:\n    import packages\nexcept ImportError:\n    pass", "try:"),
        ("from packages import first", "from"),
    ],
)
def test_a_suggestion_ends_before_an_import_of_what_is_not_there(learn: Learn, text: str, left: str) -> None:
    assert cleaned(learn(FILES, ABOVE), text) == left


@pytest.mark.parametrize("text", ["x = 1\nimport packages", "x = 1\nfrom packages import first"])
def test_where_the_environment_is_unknown_nothing_is_refused(environment: Environment, text: str) -> None:
    unknown = ModuleTable(lambda: replace(environment, is_whole=False))
    assert cleaned(learned(unknown, ABOVE), text) == text
    assert cleaned(ModuleTable(lambda: environment), text) == text
