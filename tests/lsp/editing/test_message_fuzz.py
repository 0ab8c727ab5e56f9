"""Random messages to a real process beside a text mirror of its own: texts stay equal, each request is answered."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest
from pygls.exceptions import JsonRpcException

from efim_ls.text.lines import joined
from tests.lsp.wire import GHOST_TEXT, Editor, launched

STEPS = 150
# Halves of a surrogate pair too: JSON reads them as one character where they meet in a message.
PIECES = [
    "",
    "x",
    "é",
    "😀",
    "漢字",
    "\n",
    "\r\n",
    "\r",
    "\u2028",
    "\x0c",
    "\ude00",
    "\ud83d",
    "\ufeff",
    "👩\u200d👧",
    "a\nb\r\nc",
    "\0",
]
HOSTILE: list[tuple[str, object]] = [
    ("textDocument/didChange", {"textDocument": {"uri": "file:///never.py"}, "contentChanges": [{"text": 5}]}),
    ("textDocument/didChange", None),
    ("textDocument/didOpen", {"textDocument": {"uri": 5}}),
    ("textDocument/didSave", [1]),
    ("$/cancelRequest", {"id": "no such"}),
    ("$/setTrace", {"value": 7}),
    ("efim/didMoveCursor", {"textDocument": {"uri": "file:///never.py"}, "position": -1}),
    ("workspace/didChangeConfiguration", {"settings": {"efim-ls": {"max_lines": "x"}}}),
    ("no/such", {"a": [None]}),
]
REQUESTS: list[tuple[str, object]] = [
    ("no/such", {}),
    ("textDocument/inlineCompletion", {"position": {}}),
    ("efim/explain", {"textDocument": {"uri": "file:///never.py"}, "position": {"line": 2**40, "character": 0}}),
    ("efim/explain", 5),
    ("workspace/executeCommand", {"command": "none"}),
    ("efim/stats", [None]),
]
LINE_END = re.compile("\r\n|\r|\n")
HALF = re.compile("[\ud800-\udfff]")
BROKEN = """
import sys
import efim_ls.text.document as document
from efim_ls.lsp.server import serve
from tests.lsp.stand_in import load, nothing_to_fetch
widths = document._widths
document._widths = lambda text, encoding: widths(text, "utf-32" if encoding == "utf-16" else encoding)
sys.exit(serve(None, load, nothing_to_fetch))
"""


class Mirror:
    """A document as an editor has it; positions are counted the slow way."""

    def __init__(self, uri: str, text: str, encoding: str) -> None:
        self.uri, self.text, self.encoding = uri, joined(text), encoding

    def read(self, offset: int) -> str:
        """What models read of the text before an offset."""
        before = self.text[:offset].removeprefix("\ufeff")
        return HALF.sub("\ufffd", LINE_END.sub("\n", before))

    def position(self, offset: int) -> dict[str, int]:
        before = LINE_END.split(self.text[:offset])
        return {"line": len(before) - 1, "character": sum(map(self._units, before[-1]))}

    def place(self, rng: random.Random) -> int:
        """An offset that an editor can name: not between the two characters of a line end."""
        while True:
            at = rng.randint(0, len(self.text))
            if self.text[at - 1 : at + 1] != "\r\n":
                return at

    def change(self, rng: random.Random) -> dict[str, Any]:
        new = joined("".join(rng.choices(PIECES, k=rng.randint(0, 4))))
        if rng.random() < 0.1:
            self.text = new
            return {"text": new} | rng.choice([{}, {"range": None}])
        start, end = sorted((self.place(rng), self.place(rng)))
        end = end if rng.random() < 0.3 else start
        edges = {"start": self.position(start), "end": self.position(end)}
        if end == len(self.text) and rng.random() < 0.5:
            edges["end"] = {"line": rng.choice([10**6, 2**40]), "character": 0}
        self.text = self.text[:start] + new + self.text[end:]
        if self.encoding == "utf-16":
            self.text = joined(self.text)
        return {"range": edges, "text": new} | rng.choice([{}, {"rangeLength": -1}])

    def _units(self, character: str) -> int:
        if self.encoding == "utf-32":
            return 1
        if self.encoding == "utf-16":
            return 1 + (ord(character) > 0xFFFF)
        return len(character.encode("utf-8", "surrogatepass"))


async def answered(request: Awaitable[Any]) -> None:
    with suppress(JsonRpcException):
        await request


async def fuzz(editor: Editor, seed: int, steps: int) -> None:
    """Edit several documents, with hostile messages between; compare one text after each step."""
    rng, mirrors = random.Random(seed), list[Mirror]()
    requests = list[Awaitable[Any]]()
    for step in range(steps):
        if len(mirrors) < 3 or rng.random() < 0.03:
            mirror = Mirror(
                f"file:///{seed}/{rng.randint(0, 5)}.py", "".join(rng.choices(PIECES, k=20)), editor.encoding
            )
            mirrors = [each for each in mirrors if each.uri != mirror.uri] + [mirror]
            item = {"uri": mirror.uri, "languageId": "python", "version": step, "text": mirror.text}
            editor.tell("textDocument/didOpen", {"textDocument": item})
        mirror = rng.choice(mirrors)
        changes = [mirror.change(rng) for _ in range(rng.randint(1, 4))]
        name = {"uri": mirror.uri, "version": rng.choice([step, None])}
        editor.tell("textDocument/didChange", {"textDocument": name, "contentChanges": changes})
        if rng.random() < 0.3:
            editor.tell(*rng.choice(HOSTILE))
        if rng.random() < 0.3:
            requests.append(editor.send(*rng.choice(REQUESTS))[1])
        at = mirror.place(rng)
        for offset in (at, len(mirror.text)):
            place = {"textDocument": {"uri": mirror.uri}, "position": mirror.position(offset)}
            told = (await editor.ask("efim/explain", place))["prompt"]
            assert told == mirror.read(offset), f"seed {seed}, step {step}: {changes}"
    for request in requests:
        await answered(request)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_texts_stay_equal_and_requests_are_answered(encoding: str) -> None:
    async with launched() as editor:
        await editor.start({**GHOST_TEXT, "general": {"positionEncodings": [encoding]}})
        assert editor.encoding == encoding
        for seed in (1, 2):
            await fuzz(editor, seed, STEPS)
        assert await editor.close() == 0


async def test_the_fuzz_notices_a_wrong_width() -> None:
    async with launched((sys.executable, "-c", BROKEN)) as editor:
        await editor.start({**GHOST_TEXT, "general": {"positionEncodings": ["utf-16"]}})
        with pytest.raises(AssertionError, match="seed 1"):
            await fuzz(editor, 1, STEPS)
        await editor.close()
