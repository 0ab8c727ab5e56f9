"""Cells of a notebook: those above are the text above, those below the text below, in any order of messages."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTEBOOK = "file:///home/user/a.ipynb"
CODE = (
    "import pandas\n",
    "def calibrate(readings):\n    return readings\n",
    "values = calibrate(3)",
    "print(values)",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor() -> AsyncIterator[Editor]:
    async with started(ALONE, {**GHOST_TEXT, "notebookDocument": {"synchronization": {}}}) as editor:
        yield editor


class Told:
    """A notebook as a client has it: the names of its cells in their order, their languages and texts."""

    def __init__(self, editor: Editor, number: int, texts: list[str]) -> None:
        self.editor, self.uri = editor, f"{NOTEBOOK}-{number}"
        self.cells = [f"cell:/{number}#{n}" for n in range(len(texts))]
        self.texts = dict(zip(self.cells, texts, strict=True))
        self.languages = dict.fromkeys(self.cells, "python")
        self.made = len(texts)

    def item(self, cell: str) -> dict[str, Any]:
        return {"uri": cell, "languageId": self.languages[cell], "version": 1, "text": self.texts[cell]}

    def open(self) -> None:
        cells = [{"kind": 2, "document": each} for each in self.cells]
        book = {"uri": self.uri, "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
        texts = {"notebookDocument": book, "cellTextDocuments": [self.item(each) for each in self.cells]}
        self.editor.tell("notebookDocument/didOpen", texts)

    def change(self, cells: dict[str, Any]) -> None:
        params = {"notebookDocument": {"uri": self.uri, "version": 2}, "change": {"cells": cells}}
        self.editor.tell("notebookDocument/didChange", params)

    def splice(self, start: int, count: int, cells: list[str]) -> None:
        gone = [each for each in self.cells[start : start + count] if each not in cells]
        new = [each for each in cells if each not in self.cells]
        self.cells[start : start + count] = cells
        array = {"start": start, "deleteCount": count, "cells": [{"kind": 2, "document": each} for each in cells]}
        opened, closed = [self.item(each) for each in new], [{"uri": each} for each in gone]
        self.change({"structure": {"array": array, "didOpen": opened, "didClose": closed}})

    def insert(self, at: int, text: str, language: str = "python") -> None:
        cell = f"cell:/{self.uri[-1]}#{self.made}"
        self.made, self.texts[cell], self.languages[cell] = self.made + 1, text, language
        self.splice(at, 0, [cell])

    def type(self, cell: str, text: str) -> None:
        self.texts[cell] = text + self.texts[cell]
        zero = {"line": 0, "character": 0}
        edit = {"range": {"start": zero, "end": zero}, "text": text}
        self.change({"textContent": [{"document": {"uri": cell, "version": 2}, "changes": [edit]}]})

    def close(self) -> None:
        closed = [{"uri": each} for each in self.cells]
        self.editor.tell(
            "notebookDocument/didClose", {"notebookDocument": {"uri": self.uri}, "cellTextDocuments": closed}
        )

    async def check(self) -> None:
        """Each cell of code is completed with the others of its language around it."""
        for at, cell in enumerate(self.cells):
            place = {"textDocument": {"uri": cell}, "position": {"line": 0, "character": 0}}
            explained = await self.editor.ask("efim/explain", place)
            if self.languages[cell] != "python":
                continue
            code = [(n, self.texts[each]) for n, each in enumerate(self.cells) if self.languages[each] == "python"]
            above = "".join(f"{text}\n" for n, text in code if n < at)
            below = "".join(f"\n{text}" for n, text in code if n > at)
            line, *more = (self.texts[cell] + below).split("\n", 1)
            assert explained["head"] + explained["typed"] == above
            assert (explained["rest"], explained["tail"]) == (line, "".join(more))


async def test_cells_are_one_text_in_the_notebooks_order_whatever_changes(editor: Editor):
    for number in range(4):
        rng = random.Random(number)
        told = Told(editor, number, rng.sample(CODE, 3))
        told.open()
        await told.check()
        for step in range(8):
            at = rng.randrange(len(told.cells))
            match rng.choice(["insert", "prose", "remove", "move", "type"]):
                case "insert":
                    told.insert(at, f"n{step} = {step}")
                case "prose":
                    told.insert(at, f"# Title {step}", "markdown")
                case "remove" if len(told.cells) > 1:
                    told.splice(at, 1, [])
                case "move":
                    told.splice(at, 2, told.cells[at : at + 2][::-1])
                case _:
                    told.type(told.cells[at], f"v{step} = 1\n")
            await told.check()
        told.close()


@pytest.mark.parametrize(
    "uri", ["vscode-notebook-cell:/home/user/b.ipynb", "file:///home/user/b.ipynb", "untitled:b"]
)
async def test_cells_without_a_notebook_are_told_by_their_uris(editor: Editor, uri: str):
    pages = [editor.open(f"{text}‸", f"{uri}#W{n}") for n, text in enumerate(CODE)]
    prose = editor.open("# Title‸", f"{uri}#W9", "markdown")
    explained = await pages[2].explain()
    assert explained["head"] + explained["typed"] == f"{CODE[0]}\n{CODE[1]}\n{CODE[2]}"
    assert explained["tail"] == CODE[3]
    pages[0].close()
    explained = await pages[1].explain()
    assert explained["head"] + explained["typed"] == CODE[1]
    for page in (*pages[1:], prose):
        page.close()


async def test_a_notebook_that_is_opened_again_may_have_another_order(editor: Editor):
    for order in ((0, 1), (1, 0)):
        pages = [editor.open(f"{CODE[n]}‸", f"{NOTEBOOK}#W{n}") for n in order]
        explained = await pages[1].explain()
        assert explained["head"] + explained["typed"] == f"{CODE[order[0]]}\n{CODE[order[1]]}"
        for page in pages:
            page.close()


@pytest.mark.parametrize("uri", ["file:///home/user/{}#1.py", "http-client:#{}", "file:///home/user/c#{}.py"])
async def test_files_whose_names_have_a_number_sign_are_no_cells(editor: Editor, uri: str):
    pages = [editor.open(f"{text}‸", uri.format(n)) for n, text in enumerate(CODE)]
    explained = await pages[2].explain()
    assert explained["head"] + explained["typed"] == CODE[2]
    for page in pages:
        page.close()
