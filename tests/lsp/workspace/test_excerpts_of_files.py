"""Text of other files in the prompt, with the real model: chosen from the workspace, and out of it once excluded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.wire import Editor
from tests.lsp.workspace.test_workspace_files import working_in

pytestmark = pytest.mark.asyncio

STORE = '''class ZebraStore:
    """Keeps zebras."""

    def find_zebra(self, name: str) -> str:
        return name


def open_stable(path: str) -> ZebraStore:
    return ZebraStore()
'''
USER = "from store import open_stable\n\nstable = open_stable('here')\nprint(stable.find_zebra('a'))\n"
PARTS: dict[str, Any] = {"other_files": "text"}
SIGNATURE = "def open_stable(path: str) -> ZebraStore: ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (project := tmp_path / "project").mkdir()
    (project / "store.py").write_text(STORE, "utf-8")
    (project / "user.py").write_text(USER, "utf-8")
    (project / "visit.py").write_text(USER, "utf-8")
    return project


async def explained(editor: Editor, folder: Path) -> dict[str, Any]:
    page = editor.open(USER + "‸", (folder / "visit.py").as_uri())
    await editor.ask("efim/settled")
    try:
        return await page.explain()
    finally:
        page.close()


def places(told: dict[str, Any]) -> Sequence[tuple[str, str]]:
    return [(each["place"], each["path"]) for each in told["other_files"]]


async def test_signatures_of_the_workspace_stand_in_the_prompt(folder: Path):
    async with working_in(folder, **PARTS) as editor:
        told = await explained(editor, folder)
        assert places(told) == [("signatures", "store.py"), ("imports", "store.py")]
        assert told["prompt"].startswith("<|repo_name|>project\n<|file_sep|>store.py\nclass ZebraStore:\n")
        assert f"<|file_sep|>store.py\n{SIGNATURE}<|file_sep|>visit.py\n<|fim_prefix|>" in told["prompt"]
        assert told["other_files"][0]["lines"] == [1, 4, 8]
        assert told["costs"]["others"] >= sum(each["tokens"] for each in told["other_files"]) > 0


async def test_by_default_no_text_of_other_files_stands_in_the_prompt(folder: Path):
    async with working_in(folder) as editor:
        told = await explained(editor, folder)
        assert told["other_files"] == [] and told["prompt"].startswith("<|fim_prefix|>")


@pytest.mark.parametrize("setting", ["disabled_files", "private_files"])
async def test_an_excluded_file_is_in_no_prompt(folder: Path, setting: str):
    settings: dict[str, Any] = {**PARTS, setting: ["*/store.py"]}
    async with working_in(folder, **settings) as editor:
        told = await explained(editor, folder)
        assert told["other_files"] == [] and told["prompt"].startswith("<|fim_prefix|>")


@pytest.mark.parametrize(
    "excluding", [{"disabled_files": ["*/store.py"]}, {"private_files": ["*/store.py"]}, {"enabled": True}]
)
async def test_an_excluded_file_is_out_of_the_next_prompt(folder: Path, excluding: dict[str, object]):
    async with working_in(folder, **PARTS) as editor:
        page = editor.open(USER + "‸", (folder / "visit.py").as_uri())
        await editor.ask("efim/settled")
        await page.ghost()
        assert "find_zebra(self" in (await page.explain())["prompt"]
        settings = {"suggestions": 0, **PARTS, **excluding}
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
        await editor.ask("efim/settled")
        shown = (await page.explain())["prompt"]
        assert ("find_zebra(self" in shown) == (excluding == {"enabled": True})
        page.close()


async def test_a_file_that_git_comes_to_ignore_is_out_of_the_next_prompt(folder: Path):
    async with working_in(folder, **PARTS) as editor:
        page = editor.open(USER + "‸", (folder / "visit.py").as_uri())
        await editor.ask("efim/settled")
        await page.ghost()
        (folder / ".gitignore").write_text("store.py\n", "utf-8")
        changes = [{"uri": (folder / ".gitignore").as_uri(), "type": 1}]
        editor.tell("workspace/didChangeWatchedFiles", {"changes": changes})
        await editor.ask("efim/settled")
        await page.ghost()
        assert "find_zebra(self" not in (await page.explain())["prompt"]
        page.close()
