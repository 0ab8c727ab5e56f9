"""A suggestion of which only the likely beginning is shown: what follows it, and who hears of what is hidden."""

from __future__ import annotations

import json
from math import prod

import pytest
import pytest_asyncio

from tests.editors.drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from tests.lsp.wire import ALONE, Editor, Page, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = " += 1"
LEVEL = 0.4  # between the probabilities of the beginning, and of a word more


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE, settings={"suggestions": LEVEL}) as editor:
        yield editor
    assert HIDDEN not in editor.stderr


@pytest_asyncio.fixture(loop_scope="module")
async def page(editor: Editor):
    page = editor.open(f"{SHAPES}{OPEN_ENDED}‸")
    assert await page.ghost() == BEGINNING
    yield page
    page.close()


@pytest.mark.parametrize("keys", [[BEGINNING], [*BEGINNING]], ids=["accepted", "typed"])
async def test_the_next_part_is_known_and_costs_nothing(editor: Editor, page: Page, keys: list[str]) -> None:
    shown = None
    for each in keys:
        page.type(each)
        shown = await page.ghost()
    assert shown == NEXT_PART
    last = (await editor.stats())["last"]
    assert last["recomputed"] == 0 < last["known"]


async def test_a_key_shows_all_of_it(page: Page) -> None:
    item = await page.item(kind=1)
    assert item is not None and item["insertText"].startswith(BEGINNING + HIDDEN)


async def test_explain_shows_what_is_hidden_with_the_probability_of_each_word(editor: Editor, page: Page) -> None:
    told = (await page.explain())["suggestion"]
    assert (told["shown"], told["hidden"]) == (BEGINNING, HIDDEN)
    words = told["words"]
    assert "".join(word["text"] for word in words) == BEGINNING + HIDDEN
    sizes = [len("".join(word["text"] for word in words[:count])) for count in range(len(words) + 1)]
    count = sizes.index(len(BEGINNING))
    shown, more = (prod(word["probability"] for word in words[:end]) for end in (count, count + 1))
    assert shown == pytest.approx((await editor.stats())["last_confidence"])
    assert shown >= LEVEL > more
    page.cursor -= 1
    assert (await page.explain())["suggestion"] is None


async def test_statistics_have_nothing_of_what_is_hidden(editor: Editor, page: Page) -> None:
    assert HIDDEN not in json.dumps(await editor.stats())
