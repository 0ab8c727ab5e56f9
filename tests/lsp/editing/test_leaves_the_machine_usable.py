"""What other programs notice of a server: while it is idle it never wakes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, Page, started
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at threads in /proc")

WATCHED = 1.5  # seconds: longer than any interval at which something might look whether there is work
CODE = "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return ‸\n"


def threads(editor: Editor) -> list[Path]:
    """What Linux tells of each thread of the server."""
    assert editor.client._server is not None
    return sorted(Path(f"/proc/{editor.client._server.pid}/task").iterdir())


def stat(thread: Path) -> list[str]:
    """The fields from the third one: state, ..."""
    return (thread / "stat").read_text().rpartition(")")[2].split()


def sleeps(editor: Editor) -> dict[str, int]:
    """How often each thread has gone to sleep, which is how often it had been awake."""
    status = {thread.name: (thread / "status").read_text() for thread in threads(editor)}
    return {name: int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for name, text in status.items()}


def asleep(editor: Editor) -> dict[str, int] | None:
    """How often each thread has gone to sleep, if every one sleeps."""
    before = sleeps(editor)
    is_asleep = all(stat(thread)[0] == "S" for thread in threads(editor)) and sleeps(editor) == before
    return before if is_asleep else None


@pytest.mark.parametrize("count", [1, 2])
async def test_an_idle_server_never_wakes(count: int) -> None:
    async with started(ALONE, GHOST_TEXT, {"threads": count}) as editor:
        page = editor.open(CODE)
        await typed(page, "total / len")
        await editor.ask("efim/settled")
        editor.client.wrote.clear()
        before = await asyncio.to_thread(eventually, lambda: asleep(editor), "the server goes on")
        with pytest.raises(TimeoutError):  # it is silent, too
            await asyncio.wait_for(editor.client.wrote.wait(), WATCHED)
        assert sleeps(editor) == before


async def typed(page: Page, keys: str) -> None:
    for key in keys:
        page.type(key)
        await page.ghost()
