"""What a key brings, through a real process: three suggestions that differ in their first line, none broken off."""

from __future__ import annotations

import ast

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVENTORY = """import csv
from pathlib import Path


class Inventory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.items = []

    def read(self) -> None:
        with self.path.open() as file:
            for row in csv.DictReader(file):
                self.items.append(row)

"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE) as editor:
        yield editor


async def by_key(editor: Editor, typed: str, below: str = "") -> list[str]:
    page = editor.open(f"{INVENTORY}{typed}‸{below}")
    answer = await page.ask(kind=1)[1]
    page.close()
    return [item["insertText"] for item in answer["items"]]


@pytest.mark.parametrize(
    ("typed", "below"),
    [
        ("    def find(", ""),
        ("    def count(self) -> int:\n        ", ""),
        ("    def count(self) -> int:\n        return ", "\n\n\nprint(1)\n"),
        ("    def add(self, row):\n        self.", ""),
        ("\ninventory = ", ""),
    ],
    ids=["a definition", "a body", "an expression", "an attribute", "a value"],
)  # fmt: skip
async def test_three_suggestions_differ_in_their_first_line(editor: Editor, typed: str, below: str) -> None:
    found = await by_key(editor, typed, below)
    assert len({"".join(text.strip().partition("\n")[0].split()) for text in found}) == 3


async def test_a_suggestion_of_several_lines_ends_with_a_statement(editor: Editor) -> None:
    found = await by_key(editor, "    def write(self) -> None:\n        ")
    several = [text for text in found if "\n" in text]
    assert several
    for text in several:
        ast.parse(f"{INVENTORY}    def write(self) -> None:\n        {text}\n")


async def test_the_first_is_what_typing_brings_whole(editor: Editor) -> None:
    page = editor.open(f"{INVENTORY}    def count(self) -> int:\n        return ‸")
    item = await page.item()
    page.close()
    first, *_ = await by_key(editor, "    def count(self) -> int:\n        return ")
    assert item is None or first.startswith(item["insertText"])
