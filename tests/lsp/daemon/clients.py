"""Clients of one daemon, and what its user can ask of it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.lsp.wire import ENV, GHOST_TEXT, REAL, Editor, Page, launched
from tests.processes import command_line
from tests.waiting import eventually

HEAD = "import os\n\n\ndef size_of(path):\n    return os.path."


@asynccontextmanager
async def clients(
    cache: Path, count: int = 2, settings: object = None, command: tuple[str, ...] = REAL, **env: str
) -> AsyncIterator[tuple[Editor, ...]]:
    """Clients that may share a daemon, with their model loaded."""
    async with AsyncExitStack() as stack:
        each = [
            await stack.enter_async_context(launched(command, cache, is_alone=False, env=env)) for _ in range(count)
        ]
        for editor in each:
            await editor.start(GHOST_TEXT, settings)
        yield tuple(each)


def running(cache: Path, **env: str) -> list[dict[str, Any]]:
    """What `efim-ls status` says of each daemon."""
    return [json.loads(line) for line in ask_all("status", cache, "--json", **env).splitlines()]


def ask_all(want: str, cache: Path, *options: str, **env: str) -> str:
    done = command_line.run("efim_ls", want, *options, env={**ENV, **env, "XDG_CACHE_HOME": str(cache)})
    done.check_returncode()
    return done.stdout


async def text_of(page: Page) -> str | None:
    """A document's text as the server has it."""
    told = await page.editor.ask("efim/text", {"textDocument": {"uri": page.uri}})
    return told and told["text"]


async def loaded(editor: Editor) -> None:
    while (await editor.ask("efim/status"))["state"] == "loading":
        pass


async def gone(pid: int) -> None:
    await asyncio.to_thread(eventually, lambda: not os.path.exists(f"/proc/{pid}"), f"process {pid} goes on")
