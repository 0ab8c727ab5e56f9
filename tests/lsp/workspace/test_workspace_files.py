"""Files of the workspace that are not open, with the real model: what stands in them is known."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.lsp.wire import GHOST_TEXT, PATIENT, Editor, launched

pytestmark = pytest.mark.asyncio

STORE = '''"""Where the zebras are kept."""


def load(path):
    zebra = Quagga(path, stripes=17)
    zebra.brushed_by_keeper(path)
    return zebra
'''
VISIT = '''"""A visit."""


def visit(path):
    zebra = Quagga(path, stripes=17)
    zebra.‸
'''
PHRASE = "brushed_by_keeper(path)"
WATCHES = GHOST_TEXT | {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}


@asynccontextmanager
async def working_in(
    folder: Path, *, capabilities: Mapping[str, object] = WATCHES, cache: Path | None = None, **settings: object
) -> AsyncIterator[Editor]:
    """A server that has read the workspace's files."""
    async with launched(PATIENT, cache) as editor:
        where = [{"uri": folder.as_uri(), "name": "project"}]
        await editor.start(capabilities, {"suggestions": 0, **settings}, workspaceFolders=where)
        await editor.ask("efim/settled")
        yield editor
        assert "Quagga" not in editor.stderr and "brushed" not in editor.stderr
        assert await editor.close() == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (project := tmp_path / "project").mkdir()
    (project / "store.py").write_text(STORE, "utf-8")
    (project / "visit.py").write_text(VISIT.replace("‸", ""), "utf-8")
    return project


async def ghost(editor: Editor, folder: Path, marked: str = VISIT) -> str:
    page = editor.open(marked, (folder / "visit.py").as_uri())
    await editor.ask("efim/settled")
    try:
        return await page.ghost() or ""
    finally:
        page.close()


def changed(editor: Editor, *paths: Path, kind: int = 2) -> None:
    changes = [{"uri": path.as_uri(), "type": kind} for path in paths]
    editor.tell("workspace/didChangeWatchedFiles", {"changes": changes})


async def test_a_phrase_of_a_file_that_is_not_open_is_completed(folder: Path):
    async with working_in(folder) as editor:
        assert await ghost(editor, folder) == PHRASE
        status = await editor.ask("efim/status")
        assert status["repository"]["state"] == "ready" and status["repository"]["files"] == 2


async def test_switched_off_no_file_is_read(folder: Path):
    async with working_in(folder, other_files="off") as editor:
        assert PHRASE not in await ghost(editor, folder)
        assert (await editor.ask("efim/status"))["repository"] is None
        settings = {"suggestions": 0, "other_files": "phrases"}
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
        assert (await editor.ask("efim/status"))["state"] == "ready", "the same model does for both"
        assert await ghost(editor, folder) == PHRASE


async def test_a_file_that_changes_is_seen_and_one_that_goes_is_forgotten(folder: Path):
    async with working_in(folder) as editor:
        (folder / "store.py").write_text(STORE.replace("keeper", "warden"), "utf-8")
        changed(editor, folder / "store.py")
        assert await ghost(editor, folder) == PHRASE.replace("keeper", "warden")
        (folder / "store.py").unlink()
        changed(editor, folder / "store.py", kind=3)
        assert "brushed" not in await ghost(editor, folder)


async def test_files_are_watched_here_if_the_editor_does_not(folder: Path):
    async with working_in(folder, capabilities=GHOST_TEXT) as editor:
        (folder / "store.py").write_text(STORE.replace("keeper", "warden"), "utf-8")
        (folder / "more.py").write_text("more = 1\n", "utf-8")
        while (await editor.ask("efim/status"))["repository"]["files"] < 3:
            await editor.ask("efim/settled")
        assert await ghost(editor, folder) == PHRASE.replace("keeper", "warden")


async def test_an_unsaved_text_stands_for_its_file(folder: Path):
    async with working_in(folder) as editor:
        store = editor.open(STORE.replace("keeper", "warden") + "‸", (folder / "store.py").as_uri(), "cython")
        assert await ghost(editor, folder) == PHRASE.replace("keeper", "warden")
        store.close()
        assert await ghost(editor, folder) == PHRASE


async def test_a_file_that_is_excluded_is_out_of_the_next_answer_and_off_the_disk(folder: Path, tmp_path: Path):
    async with working_in(folder, cache=tmp_path / "cache") as editor:
        assert await ghost(editor, folder) == PHRASE
        settings = {"suggestions": 0, "disabled_files": ["*/store.py"]}
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
        page = editor.open(VISIT, (folder / "visit.py").as_uri())
        assert "brushed" not in (await page.ghost() or "")
        page.close()
        await editor.ask("efim/settled")
    assert not [
        path for path in (tmp_path / "cache").rglob("*") if path.is_file() and b"brushed" in path.read_bytes()
    ]


async def test_a_suggestion_is_not_typed_through_once_its_file_is_excluded(folder: Path):
    async with working_in(folder) as editor:
        page = editor.open(VISIT, (folder / "visit.py").as_uri())
        await editor.ask("efim/settled")
        assert await page.ghost() == PHRASE
        settings = {"suggestions": 0, "disabled_files": ["*/store.py"]}
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
        await editor.ask("efim/settled")  # the files that are left are known again
        page.type("b")
        assert "rushed" not in (await page.ghost() or "")


async def test_the_document_itself_is_read_from_the_editor_alone(folder: Path):
    """What was deleted from a document is not suggested because its file on disk still has it."""
    (folder / "store.py").unlink()
    (folder / "visit.py").write_text(STORE, "utf-8")
    async with working_in(folder) as editor:
        assert "brushed" not in await ghost(editor, folder)


async def test_an_index_outlives_its_server(folder: Path, tmp_path: Path):
    async with working_in(folder, cache=tmp_path / "cache") as editor:
        assert await ghost(editor, folder) == PHRASE
    [index] = (tmp_path / "cache" / "efim-ls" / "repositories").glob("*.sqlite3")
    assert os.stat(index).st_mode & 0o777 == 0o600
    async with working_in(folder, cache=tmp_path / "cache") as editor:
        assert await ghost(editor, folder) == PHRASE


async def test_without_persistence_nothing_is_written(folder: Path, tmp_path: Path):
    async with working_in(folder, cache=tmp_path / "cache", persist=False) as editor:
        assert await ghost(editor, folder) == PHRASE
    assert not list((tmp_path / "cache").rglob("*.sqlite3"))
