"""Positions in every encoding a client can choose, in texts where they differ, against the real server."""

from __future__ import annotations

import random
import re

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, Page, started

LINE_END = re.compile("\r\n|\r")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["utf-8", "utf-16", "utf-32"])
async def editor(request):
    preferred = {**GHOST_TEXT, "general": {"positionEncodings": [request.param, "utf-16"]}}
    async with started(ALONE, preferred) as editor:
        assert editor.encoding == request.param
        yield editor
    assert editor.stderr == ""


async def matches(page: Page) -> None:
    """Check that the server has the same text around the same cursor."""
    explained = await page.explain()
    before = explained["head"] + explained["typed"]
    assert LINE_END.sub("\n", page.text[: page.cursor]).endswith(before)
    assert explained["typed"] or page.text[page.cursor - 1 : page.cursor] in ("", "\n", "\r")
    line_end = min(i for c in "\r\n" if (i := (page.text + c).find(c, page.cursor)) >= 0)
    assert explained["rest"] == page.text[page.cursor : line_end]


@pytest.mark.parametrize(
    "marked",
    [
        "naïve = 'é😀' + na‸",
        "x = '😀😀' ‸ # 😀\ny = 1\n",
        "# 汉字\r\ndef 面积(半径):\r\n    return 半‸\r\n",
        "a\x0cb 😀 ‸",
        "a\u2028b\x85c é = ‸ d\n",
        "e\u0301 = 1\rf = e\u0301‸\r",
        "‸",
    ],
)
async def test_the_cursor_is_found_after_non_ascii_text(editor: Editor, marked):
    page = editor.open(marked)
    await matches(page)
    item = await page.item()
    if item is not None:
        assert item["range"]["start"] == item["range"]["end"] == page.position(page.cursor)


async def test_edits_among_non_ascii_text_keep_both_sides_the_same(editor: Editor):
    random.seed(7)
    page = editor.open("début = '😀'\nfor x in 漢字:\r\n\tprint(x)\x0c\n‸")
    for _ in range(40):
        start = random.randrange(len(page.text) + 1)
        end = min(len(page.text), start + random.randrange(4))
        if "\r\n" in (page.text[start - 1 : start + 1], page.text[end - 1 : end + 1]):
            continue  # no position lies between the two
        page.edit(start, end, random.choice(["", "x", "é", "😀", "\n", "a\nb", "\u2028", "\x0c", "汉字"]))
        await matches(page)
