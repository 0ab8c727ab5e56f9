"""Settings and the model they name, and requests in each of their states: what users and clients are told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from efim_ls.settings import MOST_CHARACTERS
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, launched, started
from tests.waiting import HANG

CONFIGURATION = {**GHOST_TEXT, "workspace": {"configuration": True}}


def change(editor: Editor, settings: object) -> None:
    editor.tell("workspace/didChangeConfiguration", {"settings": settings})


async def test_each_wrong_setting_is_named_once():
    async with started(settings={"efim-ls": {"modle": "x", "max_lines": 0}}) as editor:
        assert len(editor.messages) == 2
        assert "'modle'" in editor.messages[0] and "'max_lines'" in editor.messages[1]
        change(editor, {"efim-ls": {"max_lines": 0, "threads": "many"}})
        await editor.loaded()
        assert len(editor.messages) == 3
        assert "'threads'" in editor.messages[2] and "positive" in editor.messages[2]
        assert await editor.open("# say more\n‸").ghost() == "more"


async def test_the_embedded_model_replaces_one_that_is_not_there():
    async with started(ALONE, settings={"model": "/no/such/folder"}) as editor:
        [message] = editor.messages
        assert "using the embedded model, because '/no/such/folder' is not a folder here" in message
        status = await editor.ask("efim/status")
        assert status["state"] == "ready" and status["fallback"] and status["message"] in message
        assert Path(status["model"]) == EMBEDDED
        page = editor.open(
            "def area(width, height):\n    return width * height\n\n\ndef area_of(width, height):\n    ret‸"
        )
        item = await page.item(kind=1)
        assert item is not None and item["insertText"] == "urn width * height"
        change(editor, {"show_after_ms": 5})
        item = await page.item(kind=1)
        assert item is not None and item["insertText"] == "urn width * height"
        assert len(editor.messages) == 1


async def test_without_any_model_the_error_is_told_once_and_the_server_stays():
    async with started(ALONE, settings={"model": "/no/such/folder", "max_lines": 1 << 20}) as editor:
        [message] = editor.messages
        assert "/no/such/folder" in message
        status = await editor.ask("efim/status")
        assert status["state"] == "error" and status["message"] in message
        page = editor.open("def f(x):\n    return ‸")
        assert await page.item() is None
        assert (await editor.stats())["last_reason"] == "no model"
        assert (await page.explain())["reason"] == "no model"
        change(editor, {"show_after_ms": 5, "max_lines": 1 << 20})
        assert await page.item() is None
        assert len(editor.messages) == 1


async def test_a_stopgap_gives_way_to_the_model_that_is_named_next():
    async with started(settings={"model": "missing"}) as editor:
        change(editor, {"model": "missing", "threads": 2})
        await editor.loaded()
        status = await editor.ask("efim/status")
        assert [status[name] for name in ("state", "model", "threads")] == ["ready", "", 2]
        assert status["fallback"] == "there is no model called missing; choose another"
        change(editor, {"model": "other"})
        await editor.loaded()
        status = await editor.ask("efim/status")
        assert [status[name] for name in ("state", "fallback", "model")] == ["ready", "", "other"]
        assert len(editor.messages) == 1


async def test_another_model_mends_it():
    async with started(settings={"model": "missing"}) as editor:
        assert editor.messages == [
            "efim-ls: using the embedded model, because there is no model called missing; choose another"
        ]
        change(editor, {"model": "other"})
        await editor.loaded()
        status = await editor.ask("efim/status")
        assert [status[name] for name in ("state", "model", "threads")] == ["ready", "other", "auto"]
        assert await editor.open("# say more\n‸").ghost() == "more"


async def test_a_loader_that_breaks_is_told_without_its_details():
    async with started(settings={"model": "broken"}) as editor:
        [message] = editor.messages
        assert "ValueError" in message and "broken" not in message
    assert "ValueError" in editor.stderr and "broken" not in editor.stderr


async def test_only_settings_of_the_model_load_it_again():
    async with started(settings={"threads": 2}) as editor:
        for settings in ({"enabled": False}, {"show_after_ms": 1}, {"menu": "never"}, {}, None):
            change(editor, settings)
        assert (await editor.ask("efim/status"))["threads"] == 2
        change(editor, {"threads": 3})
        await editor.loaded()
        assert (await editor.ask("efim/status"))["threads"] == 3
        change(editor, {})
        await editor.loaded()
        assert (await editor.ask("efim/status"))["threads"] == 2, "what the client began with holds again"
    assert editor.stderr.count("stray print") == 3, "loaded once for each number of threads"


async def test_settings_are_fetched_from_a_client_that_only_says_they_changed():
    async with started(capabilities=CONFIGURATION) as editor:
        editor.client.set_configuration({"efim-ls": {"enabled": False}})
        change(editor, None)
        await becomes(editor, "off")
        editor.client.set_configuration({})
        change(editor, None)
        await becomes(editor, "ready")


async def becomes(editor: Editor, state: str) -> None:
    async with asyncio.timeout(HANG):
        while (await editor.ask("efim/status"))["state"] != state:
            pass


async def test_switched_off_it_answers_null_and_on_again_it_completes():
    async with started(settings={"enabled": False}) as editor:
        page = editor.open("# say more\n‸")
        assert (await editor.ask("efim/status"))["state"] == "off"
        assert await page.item() is None
        assert (await editor.stats())["last_reason"] == "disabled"
        assert (await page.explain())["reason"] == "disabled"
        assert editor.client.progress_reports == {}, "no model is loaded for nothing"
        change(editor, {"enabled": True})
        await editor.loaded()
        assert await page.ghost() == "more"
        change(editor, {"enabled": False})
        assert await page.item() is None
        assert (await page.explain())["reason"] == "disabled"


async def test_while_the_model_loads_the_answer_is_null(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT, {"model": f"gate:{gate}"})
        editor.tell("initialized", {})
        page = editor.open("# say more\n‸")
        assert await page.item() is None
        assert (await editor.stats())["last_reason"] == "loading"
        assert (await page.explain())["reason"] == "loading"
        await asyncio.to_thread(gate.write_text, "go")
        await editor.loaded()
        assert await page.ghost() == "more"
        assert await editor.close() == 0


async def test_a_file_over_the_limit_gets_none():
    async with started() as editor:
        page = editor.open("# say more\n" + "x" * (MOST_CHARACTERS - 11) + "‸")
        assert await page.ghost() == "more"
        page.type("x")
        assert await page.item() is None
        assert (await editor.stats())["last_reason"] == "file too large"


async def test_a_request_that_blocks_gives_way_to_a_newer_one():
    async with started() as editor:
        page = editor.open("# block\n‸")
        _, first = page.ask()
        _, second = page.ask(kind=1)
        assert await first is None
        page.edit(0, 7, "# say more")
        _, third = page.ask()
        assert await second is None
        assert (await third)["items"]
        stats = await editor.stats()
        assert stats["answered"] == {"superseded": 2, "suggestion": 1}


async def test_what_the_client_cancels_is_answered_so():
    async with started() as editor:
        page = editor.open("# block\n‸")
        number, answer = page.ask()
        editor.tell("$/cancelRequest", {"id": number})
        with pytest.raises(JsonRpcException) as caught:
            await answer
        assert caught.value.code == -32800
        assert (await editor.stats())["answered"] == {"cancelled": 1}
        page.edit(0, 7, "# say more")
        assert await page.ghost() == "more", "the next request is answered as ever"


async def test_a_close_stops_the_work_for_the_document():
    async with started() as editor:
        page = editor.open("# block\n‸")
        _, answer = page.ask()
        page.close()
        assert await answer is None
        other = editor.open("# say more\n‸")
        assert await other.ghost() == "more"
        assert (await other.explain())["forgotten"] == [page.uri]


async def test_a_request_that_fails_otherwise_says_so_without_text():
    async with started() as editor:
        page = editor.open("# crash secret\n‸")
        with pytest.raises(JsonRpcException) as caught:
            await page.explain()
        assert caught.value.code == -32603
        assert "ValueError" in caught.value.message and "secret" not in str(caught.value.__dict__)
    assert "ValueError" in editor.stderr and "secret" not in editor.stderr


async def test_what_fails_beside_requests_is_logged_without_text():
    async with started() as editor:
        page = editor.open("‸", "file:///crash.py")
        page.close()
        await editor.logged("failed to forget")
        other = editor.open("# say more\n‸")
        assert await other.ghost() == "more"
    assert "ValueError" in editor.stderr and "secret" not in editor.stderr


async def test_a_completion_that_fails_is_null_and_logged_without_text():
    async with started() as editor:
        page = editor.open("# crash secret\n‸")
        assert await page.item() is None
        stats = await editor.stats()
        assert stats["last_reason"] == "error" and stats["answered"] == {"error": 1}
        assert editor.messages == []
    assert "ValueError" in editor.stderr and "secret" not in editor.stderr
