"""Whatever happens to what is kept costs latency, and a sentence on stderr; never an answer."""

from __future__ import annotations

import fcntl
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from kv_store.block import BLOCK_TOKENS
from tests.lsp.keeping import LONG, OTHER, B, C, Home, OneShotResult, Server, complete, reopening, settled, tier
from tests.lsp.wire import started
from tests.models import make

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITED = """import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
os.execv(sys.executable, [sys.executable, "-m", "efim_ls", "serve"])"""

Change = Callable[[bytes], bytes | None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), LONG)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(model: Path):
    async with reopening(model) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def left_behind(
    server: Server, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, OneShotResult]:
    """A cache folder that a server has left behind, and what it answered when nothing was kept."""
    home = Home(model, tmp_path_factory.mktemp("left") / "cache")
    cold = await complete(await server.open(home))
    await server.close()
    assert cold.fetched == 0 and await server.said() == []
    return home.cache, cold


@pytest.fixture
def cold(left_behind: tuple[Path, OneShotResult]) -> OneShotResult:
    return left_behind[1]


@pytest.fixture
def home(left_behind: tuple[Path, OneShotResult], model: Path, tmp_path: Path) -> Home:
    """A folder with what was kept."""
    return Home(model, shutil.copytree(left_behind[0], tmp_path / "cache"))


def garbage(seed: int, size: int = 100_000) -> bytes:
    return random.Random(seed).randbytes(size)


def flipped(content: bytes, *places: int) -> bytes:
    changed = bytearray(content)
    for place in places:
        changed[place] ^= 0x55
    return bytes(changed)


BLOCKS, NOTES, ABOUT = "*/blocks.kv", "*/notes/*.note", "*/about.json"
ANEW, DAMAGED = "a new one is started: the file", "damaged blocks"
DAMAGES: dict[str, tuple[str, Change, str]] = {
    "blocks emptied": (BLOCKS, lambda _: b"", ANEW),
    "blocks cut in the header": (BLOCKS, lambda old: old[:50], ANEW),
    "blocks cut in the table": (BLOCKS, lambda old: old[:5000], ANEW),
    "blocks cut in a block": (BLOCKS, lambda old: old[:-99_999], DAMAGED),
    "blocks lengthened": (BLOCKS, lambda old: old + bytes(1 << 23), ANEW),
    "a byte of the header": (BLOCKS, lambda old: flipped(old, 16), ANEW),
    "a byte of the first record": (BLOCKS, lambda old: flipped(old, 4100), DAMAGED),
    "a byte of the last block": (BLOCKS, lambda old: flipped(old, len(old) - 99), DAMAGED),
    "blocks replaced": (BLOCKS, lambda _: garbage(1), ANEW),
    "blocks removed": (BLOCKS, lambda _: None, ""),
    "notes removed": (NOTES, lambda _: None, ""),
    "notes replaced": (NOTES, lambda _: garbage(2), ""),
    "notes cut": (NOTES, lambda old: old[:-1], ""),
    "notes emptied": (NOTES, lambda _: b"", ""),
    "about.json replaced": (ABOUT, lambda _: garbage(4), ""),
}


def damage(home: Home, pattern: str, change: Change) -> None:
    [path] = home.cache.glob(pattern)
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_told_once_at_most_and_then_mended(
    server: Server, home: Home, cold: OneShotResult, name: str
):
    pattern, change, told = DAMAGES[name]
    damage(home, pattern, change)
    now = await complete(await server.open(home))
    assert now.text == cold.text
    if pattern != BLOCKS:
        assert now.fetched > 100 and now.recomputed <= BLOCK_TOKENS
    await server.close()
    lines = await server.said()
    assert len(lines) == bool(told) and all(line.startswith("WARNING") and told in line for line in lines)
    again = await complete(await server.open(home))
    assert (again.text, again.frame) == (cold.text, "kept")
    assert again.fetched > 100 and again.recomputed <= BLOCK_TOKENS
    await server.close()
    assert await server.said() == []


@pytest.mark.parametrize("seed", range(6))
async def test_any_damage_leaves_the_text_as_it_is(server: Server, home: Home, cold: OneShotResult, seed: int):
    choice = random.Random(seed)

    def change(old: bytes) -> bytes:
        if seed % 2:
            return old[: choice.randrange(len(old))]
        return flipped(old, *(choice.randrange(len(old)) for _ in range(choice.choice((1, 10, 1000)))))

    damage(home, BLOCKS, change)
    for _ in range(2):
        assert (await complete(await server.open(home))).text == cold.text
    await server.close()
    lines = await server.said()
    assert len(lines) <= 2 and all("cache on disk" in line and line.startswith("WARNING") for line in lines)


async def test_a_folder_that_cannot_be_made_is_named_once(server: Server, home: Home, cold: OneShotResult):
    nowhere = home._replace(cache=home.blocks / "below" / "a file")
    editor = await server.open(nowhere)
    status = await editor.ask("efim/status")
    assert status["store"] == "memory only" and "(Not a directory)" in status["store_reason"]
    assert (await complete(editor)).text == cold.text
    editor.close_pages()
    await settled(editor)
    again = await complete(editor)
    assert (again.text, again.frame) == (cold.text, "kept")
    await complete(editor, OTHER, B)
    await server.close()
    line, statistics = await server.said()
    assert "(Not a directory); repair its folder or set cache_folder" in line
    assert "the usage statistics cannot be written" in statistics


async def test_blocks_that_cannot_be_a_file_are_done_without(server: Server, home: Home, cold: OneShotResult):
    path = home.blocks
    path.unlink()
    path.mkdir()
    editor = await server.open(home)
    assert (await editor.ask("efim/status"))["store"] == "memory only"
    assert (await complete(editor)).text == cold.text
    await server.close()
    [line] = await server.said()
    assert "(Is a directory); repair its folder or set cache_folder" in line


async def test_a_cache_removed_while_a_server_runs_is_replaced(server: Server, home: Home, cold: OneShotResult):
    editor = await server.open(home)
    assert (await complete(editor)).text == cold.text
    shutil.rmtree(home.cache)
    there = await complete(editor, OTHER, B)
    await settled(editor)
    await server.close()
    [line] = await server.said()
    assert line.startswith("WARNING") and "a new one is started" in line
    editor = await server.open(home)
    assert (await complete(editor)).text == cold.text
    back = await complete(editor, OTHER, B)
    assert back.text == there.text and back.fetched > 100 and back.recomputed <= BLOCK_TOKENS
    await server.close()
    assert await server.said() == []


async def test_a_full_disk_is_told_once_and_what_is_there_serves(server: Server, home: Home, cold: OneShotResult):
    shutil.rmtree(home.cache)
    async with started((sys.executable, "-c", LIMITED), settings=home.settings()) as editor:
        first = await complete(editor)
        await settled(editor)
        other = await complete(editor, OTHER, B)
        await settled(editor)
        assert 0 < (await tier(editor, "disk"))["blocks"] < (await tier(editor, "memory"))["blocks"]
    assert first.text == cold.text
    [line] = editor.stderr.splitlines()
    assert "(File too large); free some space or lower disk_mib" in line
    now = await complete(await server.open(home))
    assert now.text == first.text and 0 < now.fetched < first.recomputed
    now = await complete(server.editor, OTHER, B)
    assert now.text == other.text
    await server.close()
    assert await server.said() == []


async def test_only_who_asks_for_it_waits_for_who_holds_the_file(home: Home, cold: OneShotResult):
    with home.blocks.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        async with home.serve() as editor:
            there = await complete(editor)
            assert there.text == cold.text and there.fetched > 100
            told = await complete(editor, OTHER, B)
            _, written = editor.send("efim/settled")
            while (await tier(editor, "memory"))["blocks"] < told.recomputed // BLOCK_TOKENS:
                assert not written.done()
            await complete(editor, OTHER[1:], C)
            assert not written.done() and (await tier(editor, "disk"))["written"] == 0
            fcntl.flock(file, fcntl.LOCK_UN)
            await written
            assert (await tier(editor, "disk"))["written"] >= told.recomputed // BLOCK_TOKENS
            fcntl.flock(file, fcntl.LOCK_EX)
            await complete(editor, OTHER[2:], C)
