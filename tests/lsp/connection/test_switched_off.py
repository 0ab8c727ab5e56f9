"""Where suggestions are given, through the real process: rules that change, secrets, and why there is nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, Page, launched, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYS = "# say more\n‸"
FOLDER = {"uri": "file:///home/me/job", "name": "job"}
RULES = [
    ({"enabled": False}, "disabled"),
    ({"disabled_languages": ["python"]}, "language off"),
    ({"disabled_files": ["rules/*.py"]}, "file off"),
    ({"disabled_files": ["/home/me/job"]}, "file off"),
]
STORE = "def load(path):\n    zebra = Quagga(path)\n    zebra.brushed_by_keeper(path)\n    return zebra‸\n"
VISIT = "def visit(path):\n    zebra = Quagga(path)\n    zebra.‸\n"


@pytest_asyncio.fixture(loop_scope="module")
async def editor():
    async with started() as editor:
        yield editor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real():
    async with started(ALONE) as editor:
        yield editor
    assert "Quagga" not in editor.stderr and "brushed" not in editor.stderr


def change(editor: Editor, **settings: Any) -> None:
    editor.tell("workspace/didChangeConfiguration", {"settings": settings})


async def told(page: Page) -> tuple[str | None, str | None]:
    """The reason and the sentence that explain a place."""
    explained = await page.explain()
    return explained["reason"], explained["why"]


async def foreseen(editor: Editor) -> list[str]:
    """The documents for which the model has worked ahead, once it is done with that."""
    await editor.ask("efim/settled")
    change(editor)
    return [uri for uri, _ in (await editor.open("‸").explain())["foreseen"]]


@pytest.mark.parametrize(("settings", "expected"), RULES)
async def test_each_rule_holds_at_once_and_ends_at_once(editor: Editor, settings: dict[str, Any], expected: str):
    page = editor.open("# say more\n" + "#" * 1100 + "\n‸", "file:///home/me/job/rules/a.py")
    assert await page.ghost() == "more"
    assert await told(page) == (None, None)
    change(editor, **settings)
    for kind in (1, 2):
        assert await page.item(kind) is None
    assert (await editor.stats())["last_reason"] == expected
    reason, why = await told(page)
    assert reason == expected and why is not None and f"'{next(iter(settings))}'" in why
    change(editor)
    assert await page.ghost() == "more"
    page.close()


@pytest.mark.parametrize(("settings", "expected"), RULES)
async def test_where_a_rule_holds_nothing_is_done_ahead(editor: Editor, settings: dict[str, Any], expected: str):
    change(editor, **settings)
    page = editor.open("# say more\n" + "#" * 1100 + "\n‸", f"file:///home/me/job/rules/{expected}.py")
    editor.tell("efim/didMoveCursor", page.place)
    await page.ghost()
    editor.tell("textDocument/didFocus", {"textDocument": {"uri": page.uri}})
    assert page.uri not in await foreseen(editor)
    page.close()


async def test_a_real_model_computes_nothing_for_what_is_off(real: Editor):
    change(real, disabled_languages=["python"])
    page = real.open(VISIT * 40)
    real.tell("efim/didMoveCursor", page.place)
    assert await page.ghost() is None
    secret = real.open("token = ‸", "file:///home/me/.env", "properties")
    assert await secret.ghost() is None
    await real.ask("efim/settled")
    assert (await real.stats())["ahead"]["tokens"] == 0
    assert (await real.stats())["tokens"] == {"recomputed": 0, "reused": 0}
    real.close_pages()


async def test_work_under_way_ends_when_its_document_is_left_out(editor: Editor):
    page, other = editor.open("# block\n‸"), editor.open(SAYS, language="ruby")
    _, answer = page.ask(kind=1)
    change(editor, disabled_languages=["python"])
    assert await answer is None
    assert await other.ghost() == "more"
    editor.close_pages()


@pytest.mark.parametrize("languages", [["python"], []])
async def test_what_is_off_is_not_kept(editor: Editor, languages: list[str]):
    page, closed = editor.open(SAYS), editor.open(SAYS)
    assert await page.ghost() == await closed.ghost() == "more"
    change(editor, disabled_languages=languages)
    closed.close()
    await editor.ask("efim/settled")
    change(editor)
    kept = (await editor.open("‸").explain())["kept"]
    assert (page.uri in kept, closed.uri in kept) == (not languages, not languages)
    editor.close_pages()


async def test_rules_that_change_load_no_model_again(editor: Editor):
    loads = editor.stderr.count("stray print")
    change(editor, disabled_languages=[], disabled_files=["*.x"], other_files="off", suggestions=0.5)
    assert (await editor.ask("efim/status"))["state"] == "ready"
    change(editor)
    assert await editor.open(SAYS).ghost() == "more"
    assert editor.stderr.count("stray print") == loads
    editor.close_pages()


async def test_prose_gets_none_by_default_and_code_in_a_notebook_does(editor: Editor):
    page = editor.open(SAYS, language="markdown")
    assert await page.item(1) is None
    assert (await told(page))[0] == "language off"
    assert await editor.open(SAYS, "vscode-notebook-cell:/home/me/a.ipynb#W0").ghost() == "more"
    assert await editor.open(SAYS, "untitled:Untitled-1").ghost() == "more"
    editor.close_pages()


async def test_a_document_that_comes_back_in_another_language_is_judged_by_that(editor: Editor):
    page = editor.open(SAYS, "untitled:Untitled-2", "plaintext")
    assert await page.ghost() is None
    page.close()
    assert await editor.open(SAYS, "untitled:Untitled-2").ghost() == "more"
    editor.close_pages()


async def test_a_file_of_secrets_gets_none_by_its_link_too(editor: Editor, tmp_path: Path):
    (tmp_path / ".env").write_text("x")
    (tmp_path / "harmless.py").symlink_to(tmp_path / ".env")
    for path in (".env", "harmless.py"):
        page = editor.open(SAYS, (tmp_path / path).as_uri())
        assert await page.item(1) is None
        reason, why = await told(page)
        assert reason == "secret file" and why is not None and "rename it" in why
        assert page.uri not in await foreseen(editor)
    assert await editor.open(SAYS, (tmp_path / "secrets.py").as_uri()).ghost() == "more"
    editor.close_pages()


@pytest.mark.parametrize("name", ["secrets.py", "off/store.py"])
async def test_no_document_is_completed_from_what_is_secret_or_off(real: Editor, name: str):
    change(real, disabled_files=["off/*"])
    page = real.open(VISIT)
    store = real.open(STORE, "file:///home/me/job/store.py")
    assert "brushed" in str(await page.item(kind=1)), "it is read elsewhere"
    store.close()
    real.open(STORE, f"file:///home/me/job/{name}")
    assert "brushed" not in str(await page.item(kind=1))
    real.close_pages()


async def test_folders_of_the_client_are_its_workspaces():
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT, {"disabled_files": ["~/no", "/home/me/job"]}, workspaceFolders=[FOLDER])
        editor.tell("initialized", {})
        await editor.loaded()
        page = editor.open(SAYS, "untitled:Untitled-1")
        assert await page.ghost() is None
        reason, why = await told(page)
        assert reason == "file off" and why is not None and "'/home/me/job'" in why
        event = {"added": [{"uri": "file:///home/me/play", "name": "play"}], "removed": [FOLDER]}
        editor.tell("workspace/didChangeWorkspaceFolders", {"event": event})
        assert await page.ghost() == "more"
        assert await editor.close() == 0


async def test_the_root_of_an_old_client_is_its_workspace():
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT, {"disabled_files": ["/home/me/job"]}, rootUri=FOLDER["uri"])
        editor.tell("initialized", {})
        await editor.loaded()
        assert await editor.open(SAYS, "untitled:Untitled-1").ghost() is None
        assert await editor.close() == 0


async def test_a_last_answer_of_nothing_is_explained_at_its_place_only(editor: Editor):
    page = editor.open("x = 1\n‸")
    assert await told(page) == (None, None)
    assert await page.ghost() is None
    reason, why = await told(page)
    assert reason == "empty" and why is not None and "keep typing" in why
    page.cursor = 2
    assert await told(page) == (None, None)
    page.cursor = len(page.text)
    page.type("# say more\n")
    assert await told(page) == (None, None)
    assert await page.ghost() == "more"
    assert await told(page) == (None, None)
    editor.close_pages()


async def test_what_a_model_cannot_read_is_explained(real: Editor):
    change(real)
    page = real.open("x = '\0'\ny = ‸")
    assert await page.ghost() is None
    reason, why = await told(page)
    assert reason == "binary text" and why is not None and "NUL" in why
    real.close_pages()


async def test_what_a_model_is_not_sure_of_is_shown_only_to_who_asks(real: Editor):
    page = real.open("def ring(radius, hole):\n    return rad‸")
    change(real, suggestions=1)
    assert await page.ghost() is None
    reason, why = await told(page)
    assert reason == "low confidence" and why is not None and "100%" in why
    answer = await page.ask(kind=1)[1]
    assert answer["items"]
    assert await told(page) == (None, None)
    change(real)
    assert await page.ghost() is not None
    real.close_pages()


@pytest.mark.parametrize("language", ["python", "ruby"])
async def test_on_request_only_a_key_reaches_the_model(real: Editor, language: str):
    change(real, suggestions="on request")
    page = real.open("def ring(radius, hole):\n    return radius\n\n\ndef ring‸", language=language)
    await real.ask("efim/settled")
    before = await real.stats()
    for key in "(ra":
        page.type(key)
        assert await page.ghost() is None
        assert (await real.stats())["last_reason"] == "on request"
    await real.ask("efim/settled")
    after = await real.stats()
    assert (after["tokens"], after["ahead"]["tokens"]) == (before["tokens"], before["ahead"]["tokens"])
    status = await real.ask("efim/status", {"textDocument": {"uri": page.uri}})
    assert status["state"] == "ready" and not status["busy"]
    reason, why = await told(page)
    assert reason == "on request" and why is not None and "by key" in why and "'balanced'" in why
    assert (await page.ask(kind=1)[1])["items"]
    assert await told(page) == (None, None), "what a key has brought is explained"
    change(real)
    page.type("d")
    assert await page.ghost() is not None
    real.close_pages()


async def test_on_request_what_a_key_would_send_is_explained(editor: Editor):
    change(editor, suggestions="on request")
    page = editor.open(SAYS)
    explained = await page.explain()
    assert explained["reason"] == "on request" and explained["prompt"] == page.text
    change(editor)
    assert await page.ghost() == "more"
    editor.close_pages()


async def test_a_document_that_is_not_open_is_explained(editor: Editor):
    place = {"textDocument": {"uri": "file:///nowhere.py"}, "position": {"line": 0, "character": 0}}
    explained = await editor.ask("efim/explain", place)
    assert explained["reason"] == "unknown document" and "open it again" in explained["why"]


async def test_while_a_model_loads_or_is_missing_it_is_explained(tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT, {"model": f"gate:{gate}"})
        editor.tell("initialized", {})
        page = editor.open(SAYS)
        reason, why = await told(page)
        assert reason == "loading" and why is not None and "once it is ready" in why
        await asyncio.to_thread(gate.write_text, "go")
        await editor.loaded()
        change(editor, model="missing", device="cuda")  # nor can the embedded one be loaded
        await editor.loaded()
        reason, why = await told(page)
        assert reason == "no model" and why is not None and "choose another" in why
        assert await editor.close() == 0
