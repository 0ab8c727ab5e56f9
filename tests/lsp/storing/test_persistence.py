"""What a server has kept outlives documents, its process and its death, and other servers find it."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from kv_store.block import BLOCK_TOKENS
from kv_store.notes import Notes
from tests.lsp.keeping import (
    LINE,
    LONG,
    OTHER,
    TEXT,
    UNPARSED,
    A,
    B,
    C,
    Home,
    OneShotResult,
    Server,
    answered,
    complete,
    reopening,
    settled,
    tier,
)
from tests.lsp.wire import ALONE, Editor, Page, launched
from tests.models import make

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = 3
SECRETS = (
    "file:///project/secrets.py",
    "file:///project/secret%73.py",
    "file:///home/me/.ssh/x.py",
    "file:///c%3A/Users/me/.SSH/config.py",
    "untitled:Untitled-1",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), LONG)


@pytest.fixture
def home(model: Path, tmp_path: Path) -> Home:
    return Home(model, tmp_path / "below" / "cache")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(model: Path):
    async with reopening(model) as server:
        yield server


async def say_goodbye(editor: Editor) -> None:
    assert await editor.close() == 0


async def hang_up(editor: Editor) -> None:
    assert editor.client._server is not None and editor.client._server.stdin is not None
    editor.client._server.stdin.close()
    assert await editor.gone() == 1


async def terminate(editor: Editor) -> None:
    assert editor.client._server is not None
    editor.client._server.terminate()
    assert await editor.gone() == 128 + signal.SIGTERM


async def kill(editor: Editor) -> None:
    assert editor.client._server is not None
    editor.client._server.kill()
    await editor.gone()


async def settle_and_kill(editor: Editor) -> None:
    await settled(editor)
    await kill(editor)


async def completed(page: Page) -> OneShotResult:
    told = await answered(page)
    assert told.fetched == 0 and told.recomputed > 200
    return told


async def completed_while_typing(page: Page) -> OneShotResult:
    for key in "min(total_3, ":
        page.type(key)
        await page.item()
    return await answered(page)


async def completed_after_it_was_closed(page: Page) -> OneShotResult:
    await answered(page)
    page.close()
    return await answered(again(page, page.editor))


def again(page: Page, editor: Editor) -> Page:
    """The document as it is now, opened once more."""
    return editor.open(page.text[: page.cursor] + "‸" + page.text[page.cursor :], page.uri, UNPARSED)


async def test_after_a_restart_only_what_no_block_holds_is_computed(home: Home):
    ways = ((TEXT, completed), (OTHER, completed_while_typing), (TEXT[100:], completed_after_it_was_closed))
    before: list[tuple[Page, OneShotResult]] = []
    ends = (say_goodbye, hang_up, terminate, settle_and_kill)
    for number in range(len(ends) + 1):
        async with launched(ALONE) as editor:
            await editor.start(settings=home.settings())
            for page, was in before:
                now = await answered(again(page, editor))
                assert (now.text, now.typed, now.frame) == (was.text, was.typed, "kept")
                assert now.fetched > 100 and now.recomputed <= BLOCK_TOKENS
            if number < len(ends):
                pages = [(editor.open(f"# {number}\n{marked}", language=UNPARSED), way) for marked, way in ways]
                before = [(page, await way(page)) for page, way in pages]
                await ends[number](editor)
            else:  # only what the last end left had to be seen
                await say_goodbye(editor)
            assert editor.stderr == ""


@pytest.mark.parametrize("persist", [True, False])
async def test_a_closed_file_whose_arena_was_taken_comes_back(server: Server, home: Home, persist: bool):
    editor = await server.open(home, memory_mib=32, persist=persist)
    arenas = (await editor.ask("efim/status"))["arenas"]
    there = await complete(editor)
    editor.close_pages()
    await settled(editor)
    for number in range(arenas):
        await complete(editor, OTHER, f"{B}.{number}.py")
    back = await complete(editor)
    assert (back.text, back.frame) == (there.text, "kept")
    assert back.fetched > 100 and back.recomputed <= BLOCK_TOKENS


async def test_a_server_that_is_killed_at_any_moment_leaves_nothing_that_is_wrong(server: Server, home: Home):
    cold = await complete(await server.open(home, persist=False))
    for seed in range(ROUNDS):
        async with launched(ALONE) as editor:
            await editor.start(settings=home.settings())
            now = await complete(editor)
            assert now.text == cold.text and (now.recomputed <= BLOCK_TOKENS or seed == 0)
            await settled(editor)
            await edit_until_killed(editor, random.Random(seed))
            assert editor.stderr == ""
    now = await complete(await server.open(home))
    assert now.text == cold.text and now.recomputed <= BLOCK_TOKENS
    assert await server.said() == []


async def edit_until_killed(editor: Editor, choice: random.Random) -> None:
    """Complete here and there in a file and have it written; kill the server before that, after it or meanwhile."""
    page = editor.open(OTHER, B, UNPARSED)
    for _ in range(choice.randrange(2, 10)):
        page.cursor = page.text.index("\n", choice.randrange(len(page.text) // 2))
        page.type(f"\nvalue = {choice.random()}")
        await page.item(kind=1)
    _, writing = editor.send("efim/settled")
    for _ in range(choice.randrange(40)):  # answers of the server, which writes meanwhile
        await editor.ask("efim/status")
    await kill(editor)
    writing.cancel()


async def test_servers_at_the_same_time_share_what_they_keep(server: Server, home: Home):
    async with home.serve() as one, home.serve() as two:
        a, b = await complete(one, TEXT, A), await complete(two, OTHER, B)
        await settled(one)
        await settled(two)
        assert [each.fetched for each in (a, b)] == [0, 0]
        for editor, marked, was in ((one, OTHER, b), (two, TEXT, a)):
            now = await complete(editor, marked, C)
            assert now.text == was.text and now.fetched > 100 and now.recomputed <= BLOCK_TOKENS
    third = await server.open(home)
    for marked, uri, was in ((TEXT, A, a), (OTHER, B, b)):
        now = await complete(third, marked, uri)
        assert (now.text, now.frame) == (was.text, "kept")
        assert now.fetched > 100 and now.recomputed <= BLOCK_TOKENS


async def test_the_tiers_are_counted_and_the_store_is_named(server: Server, home: Home):
    editor = await server.open(home)
    told = await complete(editor)
    await settled(editor)
    for name in ("memory", "disk"):
        kept = await tier(editor, name)
        assert kept["blocks"] == kept["written"] == told.recomputed // BLOCK_TOKENS
        assert kept["bytes"] <= kept["capacity_bytes"] <= 8 << 20 and kept["bytes"] % kept["blocks"] == 0
        assert kept["read"] == kept["evicted"] == kept["damaged"] == 0
    await server.open(home)
    told = await complete(editor)
    disk = await tier(editor, "disk")
    assert disk["read"] * BLOCK_TOKENS == told.fetched and disk["written"] == 0
    status = await editor.ask("efim/status")
    assert status["store"] == str(home.blocks.parent) and status["store_approximate"] is False


async def test_where_no_folder_is_named_the_systems_is_used(server: Server, home: Home):
    editor = await server.open(home, cache_folder="")
    assert Path((await editor.ask("efim/status"))["store"]).parent.name == "efim-ls"


async def test_only_its_owner_may_look_at_what_is_kept(server: Server, home: Home):
    editor = await server.open(home)
    await complete(editor)
    await server.close()
    paths = [home.cache.parent, home.cache, *home.cache.rglob("*")]
    assert {"blocks.kv", "about.json", *(note.name for note in home.notes)} <= {p.name for p in paths}
    assert {p.name: oct(p.stat().st_mode & 0o777) for p in paths} == {
        p.name: "0o700" if p.is_dir() else "0o600" for p in paths
    }


async def test_without_persist_nothing_is_written(server: Server, home: Home):
    editor = await server.open(home, persist=False)
    await complete(editor)
    await settled(editor)
    status = await editor.ask("efim/status")
    assert status["store"] == "memory only" and "persist" in status["store_reason"]
    assert [each["name"] for each in (await editor.stats())["tiers"]] == ["memory"]
    await server.close()
    assert not home.cache.parent.exists()


@pytest.mark.parametrize("closed", [True, False])
async def test_what_is_switched_off_before_it_was_written_never_is(server: Server, home: Home, closed: bool):
    editor = await server.open(home)
    await complete(editor, TEXT, A)
    off = home.settings(disabled_files=["a.py"])
    editor.tell("workspace/didChangeConfiguration", {"settings": off})
    if closed:
        editor.close_pages()
    await server.open(home, disabled_files=["a.py"], max_lines=3)
    assert home.notes == [] and not found(home, LINE)


@pytest.mark.parametrize("uri", SECRETS)
async def test_what_may_be_secret_is_kept_in_memory_only(server: Server, home: Home, uri: str):
    editor = await server.open(home)
    there = await complete(editor, uri=uri)
    await settled(editor)
    assert (await tier(editor, "memory"))["blocks"] and not (await tier(editor, "disk"))["blocks"]
    await server.open(home)
    assert home.notes == [] and not found(home, LINE)
    assert (await complete(editor, uri=uri))[:4] == (there.text, "new", there.typed, 0)
    assert await server.said() == []


@pytest.mark.parametrize("pattern", ["A.py", "*/PROJECT/a.*", "a?py"])
async def test_what_the_user_calls_private_is_kept_in_memory_only(server: Server, home: Home, pattern: str):
    editor = await server.open(home, private_files=[pattern])
    await complete(editor, TEXT, A)
    await complete(editor, OTHER, B)
    await settled(editor)
    assert (await tier(editor, "disk"))["blocks"] < (await tier(editor, "memory"))["blocks"]
    await server.open(home)
    assert len(home.notes) == 1 and found(home, "factor") and not found(home, LINE)
    assert (await complete(editor, TEXT, A)).fetched == 0
    assert (await complete(editor, OTHER, B)).fetched > 100


async def test_what_becomes_private_is_taken_from_disk(server: Server, home: Home):
    await complete(await server.open(home), OTHER, B)
    editor = await server.open(home, private_files=["b.py"])
    there = await complete(editor, OTHER, B)
    await settled(editor)
    assert (await tier(editor, "disk"))["blocks"] == 0 < (await tier(editor, "memory"))["blocks"]
    assert home.notes == []
    back = await complete(await server.open(home), OTHER, B)
    assert (back.text, back.frame, back.fetched) == (there.text, "new", 0)


def found(home: Home, text: str) -> bool:
    """Whether a text is in a file, or packed in a note."""
    notes = [Notes(path.parent, 0).read(int(path.stem, 16)) for path in home.notes]
    kept = [path.read_bytes() for path in home.cache.rglob("*") if path.is_file()]
    return any(json.dumps(text)[1:-1].encode() in content for content in [*kept, *filter(None, notes)])


async def test_a_file_is_the_same_however_its_uri_is_spelled(server: Server, home: Home):
    there = await complete(await server.open(home), uri="file:///c:/My%20work/a.py")
    back = await complete(await server.open(home), uri="file:///" + quote("c:/My work/a.py", safe="/"))
    assert (back.text, back.frame) == (there.text, "kept")
    assert back.recomputed <= BLOCK_TOKENS


async def test_int8_is_told_and_exact_servers_never_see_it(server: Server, home: Home):
    int8 = {"approximations": ["int8_on_disk"]}
    cold = await complete(await server.open(home, **int8))
    editor = await server.open(home, **int8)
    assert (await editor.ask("efim/status"))["store_approximate"] is True
    warm = await complete(editor)
    assert (cold.approximate, warm.frame) == (0, "kept")
    assert 0 < warm.approximate < warm.fetched and warm.recomputed <= BLOCK_TOKENS  # the first tokens are raw
    exact = await complete(await server.open(home))
    assert exact == cold
