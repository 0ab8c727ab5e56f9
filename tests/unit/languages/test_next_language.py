"""The next language is one file and one row: no room that asks something of languages has to be told of it."""

from __future__ import annotations

import pytest

from efim_ls.access.secret_text import PublicText
from efim_ls.completion.filters.place import place_at
from efim_ls.completion.filters.redefinition import redefinition
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.languages import table
from efim_ls.next_edit.import_lines import added_import, import_statements
from efim_ls.next_edit.rules.imports import unknown_names
from efim_ls.next_edit.situation import in_comment
from efim_ls.text.brackets import brackets_of
from efim_ls.text.document import Document, PastEdit
from efim_ls.text.outline import Importable, outline
from tests.unit.languages import made_up

ID = "madeup"


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of languages with the row that the next language would have."""
    rows = table.by_name(each for module in (*table.MODULES, made_up) for each in module.LANGUAGES)
    monkeypatch.setitem(table.LANGUAGES, ID, rows[ID])  # pyright: ignore[reportArgumentType]
    for ending in rows[ID].endings.split():
        monkeypatch.setitem(table.ENDINGS, ending, ID)
    table._telling.cache_clear()  # pyright: ignore[reportPrivateUsage]


def edited(text: str, typed: str) -> tuple[Document, PastEdit]:
    at = text.index(typed)
    return Document("file:///a.made", ID, text), PastEdit("file:///a.made", at, "", typed, 0.0)


def test_files_and_texts_are_known_by_name() -> None:
    assert table.language_of("src/a.made") == table.language_of("madefile") == ID
    assert table.name_of("MadeUp") == "Made Up" and table.language_named("madeup.special") == ID
    assert table.guess_language("make one(two)\nmake three(four)\n") == ID


def test_its_words_comments_and_brackets_are_known() -> None:
    assert spot_of(place_at("make na", 7, ID)).kind == "new name"
    assert in_comment(["x ", "-- ", "y"], ID) and not in_comment(["x ", "// ", "y"], ID)
    assert [each.sign for each in brackets_of("a( -- (\n[", ID).signs] == ["(", "["]
    assert "hunter2hunter2" in PublicText("password = hunter2hunter2()\n", ID).text


def test_its_definitions_and_imports_are_read() -> None:
    read = outline("import tool\n\ndef total(values): ...\n", ID)
    assert [each.name for each in read.definitions] == ["total"] and [each.module for each in read.imports] == [
        "tool"
    ]
    text = "make one()\n\n\n"
    assert redefinition("make one()", place_at(text, len(text), ID)) == ""
    assert redefinition("make two()", place_at(text, len(text), ID)) == "make two()"


def test_imports_are_found_and_written() -> None:
    document = Document("file:///a.made", ID, "take one, two from tool\n")
    assert [each.module for each in import_statements(document)] == ["tool"]
    edit = added_import(document, Importable("other", "three", 1))
    assert edit is not None and edit.added == "\ntake three from other"
    assert unknown_names(*edited("value = novel(1)\n", "novel(1)"), cursor=0) == ["novel"]
    assert unknown_names(*edited("value = show(1)\n", "show(1)"), cursor=0) == []
