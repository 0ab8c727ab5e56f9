"""A model that is fetched from the hub by a real server: what the user sees of it, and that it can be given up."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lsp import wire
from tests.lsp.wire import ALONE, GHOST_TEXT, Editor, launched
from tests.models import CODE, make
from tests.unit.checkpoint.hub_server import COMMIT, Hub, serving

SETTINGS = {"model": "owner/tiny", "suggestions": 0, "weights": "fp16"}


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    with serving(tiny=make(tmp_path / "published")) as hub:
        ours = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hub")}
        monkeypatch.setattr(wire, "ENV", {**wire.ENV, **ours})
        yield hub


def progress(editor: Editor) -> list[Any]:
    return [report for reports in editor.client.progress_reports.values() for report in reports]


def is_fetching(editor: Editor) -> bool:
    return any("fetching owner/tiny" in (getattr(each, "message", None) or "") for each in progress(editor))


async def complete(editor: Editor) -> None:
    """Have the model asked for a suggestion, whatever it makes of it."""
    page = editor.open(CODE[:300] + "‸")
    await page.item()
    costs = (await editor.stats())["last"]
    assert costs["new_tokens"] > 0, costs
    page.close()


async def test_a_model_is_fetched_with_progress_and_completes_and_is_there_the_next_time(hub: Hub) -> None:
    async with launched(ALONE) as editor:
        await editor.start(GHOST_TEXT, SETTINGS)
        assert editor.messages == []
        status = await editor.ask("efim/status")
        assert (status["state"], status["model"], status["revision"]) == ("ready", "owner/tiny", COMMIT)
        await complete(editor)
        assert is_fetching(editor)
        percents = [each.percentage for each in progress(editor) if hasattr(each, "percentage")]
        assert percents == sorted(percents)
        assert await editor.close() == 0
    asked = len(hub.asked)
    async with launched(ALONE) as editor:
        await editor.start(GHOST_TEXT, SETTINGS)
        await complete(editor)
        assert not is_fetching(editor)
        assert await editor.close() == 0
    assert len(hub.asked) == asked


async def fetching(editor: Editor) -> None:
    """Start a server, and wait until it fetches weights that come slowly."""
    await editor.initialize(GHOST_TEXT, SETTINGS)
    editor.tell("initialized", {})
    await until_fetching(editor)


async def test_a_server_ends_while_it_fetches(hub: Hub) -> None:
    hub.slow = threading.Event()
    async with launched(ALONE) as editor:
        await fetching(editor)
        assert await editor.close() == 0
        assert not hub.slow.is_set()


async def test_another_model_is_loaded_in_place_of_one_that_is_fetched(hub: Hub) -> None:
    hub.slow = threading.Event()
    async with launched(ALONE) as editor:
        await fetching(editor)
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": {**SETTINGS, "model": ""}}})
        await editor.loaded()
        assert (await editor.ask("efim/status"))["state"] == "ready"
        assert await editor.close() == 0
        assert "Traceback" not in editor.stderr and "given up" not in editor.stderr


@asynccontextmanager
async def with_another() -> AsyncIterator[Editor]:
    """A server that completes with the embedded model."""
    async with launched(ALONE) as editor:
        await editor.start(GHOST_TEXT, {**SETTINGS, "model": ""})
        await complete(editor)
        yield editor
        assert await editor.close() == 0


def ask_for_it(editor: Editor, **more: object) -> None:
    editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": {**SETTINGS, **more}}})


async def until_fetching(editor: Editor) -> None:
    while not is_fetching(editor):
        await editor.ask("efim/status")


async def test_another_model_completes_until_it_is_fetched(hub: Hub) -> None:
    hub.slow = threading.Event()
    async with with_another() as editor:
        ask_for_it(editor)
        await until_fetching(editor)
        await complete(editor)
        assert (await editor.ask("efim/status"))["state"] == "loading" and not hub.slow.is_set()
        hub.slow.set()
        await editor.loaded()
        assert (await editor.ask("efim/status"))["model"] == "owner/tiny"
        await complete(editor)


async def test_another_model_completes_on_where_it_cannot_be_had(hub: Hub) -> None:
    hub.repositories.clear()
    async with with_another() as editor:
        ask_for_it(editor)
        await editor.loaded()
        [message] = editor.messages
        assert "no such model on the hub" in message and message.endswith("the previous model stays in use")
        await complete(editor)


async def until_embedded(editor: Editor) -> None:
    while "embedded model answers" not in (await editor.ask("efim/status"))["message"]:
        pass


async def test_where_it_may_keep_less_the_embedded_model_completes_by_the_new_settings(hub: Hub) -> None:
    hub.slow = threading.Event()
    async with with_another() as editor:
        ask_for_it(editor, private_files=["*.py"])
        await until_fetching(editor)
        await until_embedded(editor)
        await complete(editor)


async def test_the_embedded_model_completes_until_the_first_is_fetched(hub: Hub) -> None:
    hub.slow = threading.Event()
    async with launched(ALONE) as editor:
        await fetching(editor)
        await until_embedded(editor)
        await complete(editor)
        assert (await editor.ask("efim/status"))["state"] == "loading" and not hub.slow.is_set()
        hub.slow.set()
        await editor.loaded()
        status = await editor.ask("efim/status")
        assert (status["state"], status["model"], status["fallback"]) == ("ready", "owner/tiny", "")
        await complete(editor)
        assert editor.messages == []
        assert await editor.close() == 0


async def test_a_first_model_whose_download_breaks_off_is_told_once_and_the_embedded_one_goes_on(hub: Hub) -> None:
    hub.drop_after, hub.slow = 50_000, threading.Event()
    async with launched(ALONE) as editor:
        await fetching(editor)
        await until_embedded(editor)
        hub.repositories.clear()
        hub.slow.set()
        await editor.loaded()
        [message] = editor.messages
        assert "using the embedded model, because" in message and "the hub" in message
        await complete(editor)
        assert await editor.close() == 0


async def test_a_model_that_cannot_be_had_is_told_once_and_the_embedded_one_completes(hub: Hub) -> None:
    hub.repositories.clear()
    async with launched(ALONE) as editor:
        await editor.start(GHOST_TEXT, SETTINGS)
        [message] = editor.messages
        assert "no folder owner/tiny" in message and "no such model on the hub" in message
        status = await editor.ask("efim/status")
        assert status["state"] == "ready" and status["fallback"]
        await complete(editor)
        assert await editor.close() == 0
