"""Several files open with the real model: what stands in one is known in the others."""

from __future__ import annotations

import pytest
import pytest_asyncio

from efim_ls.settings import MOST_CHARACTERS
from tests.lsp.wire import ALONE, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORE = '''"""Where the zebras are kept."""


def load(path):
    zebra = Quagga(path, stripes=17)
    zebra.brushed_by_keeper(path)
    return zebra‸
'''
VISIT = '''"""A visit."""


def visit(path):
    zebra = Quagga(path, stripes=17)
    zebra.‸
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with started(ALONE) as editor:
        yield editor
    assert "Quagga" not in editor.stderr and "brushed" not in editor.stderr


@pytest_asyncio.fixture(loop_scope="module")
async def editor(shared: Editor):
    """The shared editor without documents, where whatever the model says is shown."""
    await change(shared)
    yield shared
    shared.close_pages()


async def change(editor: Editor, **settings: object) -> None:
    changed = {"efim-ls": {"suggestions": 0, **settings}}
    editor.tell("workspace/didChangeConfiguration", {"settings": changed})
    await editor.loaded()


async def test_a_phrase_that_stands_only_in_another_open_file_is_completed(editor: Editor):
    page = editor.open(VISIT)
    assert "brushed" not in (await page.ghost() or "")
    other = editor.open(STORE)
    assert await page.ghost() == "brushed_by_keeper(path)"
    other.close()
    assert "brushed" not in (await page.ghost() or "")


async def test_an_edit_in_another_file_is_seen(editor: Editor):
    other = editor.open(STORE)
    page = editor.open(VISIT)
    assert await page.ghost() == "brushed_by_keeper(path)"
    start = other.text.index("keeper")
    other.edit(start, start + len("keeper"), "warden")
    assert await page.ghost() == "brushed_by_warden(path)"


async def test_a_file_of_another_language_contributes_nothing(editor: Editor):
    editor.open(STORE, language="markdown")
    assert "brushed" not in (await editor.open(VISIT).ghost() or "")


async def test_a_file_too_large_to_be_completed_contributes_nothing(editor: Editor):
    editor.open("#" * MOST_CHARACTERS + "\n" + STORE)
    assert "brushed" not in (await editor.open(VISIT).ghost() or "")
