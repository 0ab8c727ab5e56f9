"""What tests of the store share: two documents, servers with a cache folder, and what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.lsp.wire import ALONE, Editor, Page, started
from tests.models import CODE, Tiny

LONG = Tiny(context=2000)
A, B, C = (f"file:///project/{name}.py" for name in "abc")
LINE = "            name, value = line.split"
END_OF_LINE = CODE.index("\n", CODE.index(LINE))
TEXT = CODE[:END_OF_LINE] + "‸" + CODE[END_OF_LINE:]
OTHER_LINES = [f"total_{n} = {n} * factor" for n in range(60)]
OTHER = "\n".join([*OTHER_LINES[:40], "result = ‸", *OTHER_LINES[40:]])
UNPARSED = "plaintext"  # a language whose code is not parsed: what a model without training says would be no Python
MARK = "ignoring a change to a document that is not open"


class OneShotResult(NamedTuple):
    """A suggestion and what it cost."""

    text: str
    frame: str
    typed: int
    fetched: int
    approximate: int
    recomputed: int


async def answered(page: Page) -> OneShotResult:
    """Ask for a completion that does say something."""
    item = await page.item(kind=1)
    assert item is not None
    costs = (await page.editor.stats())["last"]
    return OneShotResult(item["insertText"], *(costs[name] for name in OneShotResult._fields[1:]))


async def complete(editor: Editor, marked: str = TEXT, uri: str = A) -> OneShotResult:
    return await answered(editor.open(marked, uri, UNPARSED))


async def settled(editor: Editor) -> None:
    await editor.ask("efim/settled")


async def tier(editor: Editor, name: str) -> dict[str, Any]:
    [found] = [each for each in (await editor.stats())["tiers"] if each["name"] == name]
    return found


class Home(NamedTuple):
    """A model and a cache folder, which perhaps is not there yet."""

    model: Path
    cache: Path

    def settings(self, **more: object) -> dict[str, object]:
        """Nothing is computed ahead or chosen by speed, and texts are cut only where they are longer than these.

        In fp16 the compiled decoder computes, which starts sooner than torch.
        """
        sizes = {"head_tokens": 1200, "disk_mib": 8, "memory_mib": 32}
        where = {"model": str(self.model), "cache_folder": str(self.cache), "persist": True}
        always = {"weights": "fp16", "prefetch_seconds_per_minute": 0, "disabled_languages": []}
        return {**sizes, **where, **always, **more}

    @property
    def blocks(self) -> Path:
        [path] = self.cache.glob("*/blocks.kv")
        return path

    @property
    def notes(self) -> list[Path]:
        return sorted(self.cache.rglob("*.note"))

    @asynccontextmanager
    async def serve(self, **more: object) -> AsyncIterator[Editor]:
        """A server process that goes as the protocol asks, and has nothing to complain about."""
        async with started(ALONE, settings=self.settings(**more)) as editor:
            yield editor
        assert editor.stderr == ""


class Server:
    """One server process that loads its model and opens its store anew as often as it is told to."""

    def __init__(self, editor: Editor, elsewhere: str) -> None:
        self.editor, self._settings, self._elsewhere = editor, {"persist": False}, elsewhere

    async def open(self, home: Home, **more: object) -> Editor:
        """Open the store as a server does that is started with these settings."""
        await self.close()
        self._settings = home.settings(**more)
        await self._load(self._settings)
        return self.editor

    async def close(self) -> None:
        """Close documents, model and store, as at a server's end: nothing changes but where a store is."""
        self.editor.close_pages()
        await self._load({**self._settings, "cache_folder": self._elsewhere})

    async def said(self) -> list[str]:
        """The lines on stderr since this was asked last."""
        marks = self.editor.stderr.count(MARK)
        name = {"uri": "file:///never-opened", "version": 1}
        self.editor.tell("textDocument/didChange", {"textDocument": name, "contentChanges": []})
        await self.editor.logged(MARK, times=marks + 1)
        lines = self.editor.stderr.splitlines()
        *_, before, here = [-1, *(number for number, line in enumerate(lines) if MARK in line)]
        return lines[before + 1 : here]

    async def _load(self, settings: object) -> None:
        self.editor.tell("workspace/didChangeConfiguration", {"settings": settings})
        await self.editor.loaded()
        assert (await self.editor.ask("efim/status"))["state"] == "ready"


@asynccontextmanager
async def reopening(model: Path) -> AsyncIterator[Server]:
    """A server without a store on disk until it is told to open one."""
    with TemporaryDirectory() as elsewhere:
        async with started(ALONE, settings={"model": str(model), "persist": False}) as editor:
            server = Server(editor, elsewhere)
            assert await server.said() == []
            yield server
