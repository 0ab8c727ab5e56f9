"""What a client is told of the server's state, asked and unasked, with a model that does what it is told."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.lsp.wire import GHOST_TEXT, Editor, launched, started
from tests.waiting import HANG

TOLD = {**GHOST_TEXT, "experimental": {"efimStatus": True}}
SAYING = "# say more\n‸"


class News:
    """The changes of status that a client is told of, in their order."""

    def __init__(self, editor: Editor) -> None:
        self.told: list[dict[str, Any]] = []
        self._came = asyncio.Event()

        @editor.client.feature("efim/didChangeStatus")
        def keep(params: Any) -> None:
            self.told.append(editor.client.protocol._converter.unstructure(params))
            self._came.set()

    @property
    def idle(self) -> int:
        """How many of them say that nothing takes long: on a busy machine any request may."""
        return sum(not each["busy"] for each in self.told)

    async def until(self, **expected: object) -> dict[str, Any]:
        """Wait until a status with these values is the last one that was told."""
        async with asyncio.timeout(HANG):
            while not (self.told and expected.items() <= self.told[-1].items()):
                self._came.clear()
                await self._came.wait()
        return self.told[-1]


async def status(editor: Editor, uri: str | None = None) -> dict[str, Any]:
    return await editor.ask("efim/status", {"textDocument": {"uri": uri}} if uri else {})


async def test_loading_is_told_with_how_much_of_it_is_done(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with launched() as editor:
        news = News(editor)
        await editor.initialize(TOLD, {"model": f"gate:{gate}"})
        editor.tell("initialized", {})
        await news.until(state="loading", percentage=50)
        assert (await status(editor))["percentage"] == 50
        await asyncio.to_thread(gate.write_text, "open")
        ready = await news.until(state="ready")
        assert ready["percentage"] is None and ready["model"] == f"gate:{gate}" and ready["message"]
        assert [each["state"] for each in news.told][-1] == "ready"
        assert await editor.close() == 0


async def test_an_answer_is_told_once_with_its_costs():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD)
        ready = await news.until(state="ready")
        before = news.idle
        assert ready["typical_ms"] is None
        page = editor.open(SAYING)
        assert await page.ghost() == "more"
        answered = await news.until(
            last={"uri": page.uri, "reason": None, "reused": 7, "recomputed": 5, "ms": 2.0}, busy=False
        )
        assert answered["counters"] == {
            "shown": 1, "accepted": 0, "partially_accepted": 0, "acceptance_rate": 0.0, "kept_rate": None,
        }  # fmt: skip
        assert answered["typical_ms"] == 2.0
        assert answered == await status(editor) and answered["busy"] is False
        assert news.idle == before + 1
        await editor.close()


async def test_a_request_that_takes_long_is_told_of_until_it_is_over():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD)
        page = editor.open("# block\n‸")
        _, answer = page.ask()
        await news.until(busy=True)
        assert (await status(editor))["busy"] is True
        page.edit(0, 7, "# say more")
        assert await page.ghost() == "more"
        assert await answer is None
        await news.until(busy=False)
        await editor.close()


async def test_switching_off_and_on_is_told():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD)
        for enabled, state in ((False, "off"), (True, "ready")):
            editor.tell("workspace/didChangeConfiguration", {"settings": {"enabled": enabled}})
            await news.until(state=state)
        await editor.close()


async def test_where_nothing_changes_nothing_is_told():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD)
        await news.until(state="ready")
        before = news.idle
        for _ in range(3):
            editor.tell("workspace/didChangeConfiguration", {"settings": {}})
            assert await editor.open("‸", uri="file:///page.py").item() is None
            await status(editor)
        assert news.idle == before + 1, "the first answer, and the same one again"
        await editor.close()


async def test_a_stopgap_is_told():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD, {"model": "missing"})
        ready = await news.until(state="ready")
        assert ready["fallback"] and "missing" in ready["message"] and ready["model"] == ""
        await editor.close()


async def test_a_model_that_cannot_be_used_is_told():
    async with launched() as editor:
        news = News(editor)
        await editor.initialize(TOLD, {"model": "missing", "device": "cuda"})
        editor.tell("initialized", {})
        error = await news.until(state="error")
        assert "missing" in error["message"] and error["percentage"] is None and "model" not in error
        await editor.close()


async def test_a_burst_of_requests_is_told_of_no_more_often_than_it_is_answered():
    async with launched() as editor:
        news = News(editor)
        await editor.start(TOLD)
        await news.until(state="ready")
        before, page = news.idle, editor.open(SAYING)
        answers = []
        for _ in range(30):
            page.type("x")
            answers.append(page.ask()[1])
        await asyncio.gather(*answers)
        await status(editor)
        assert news.idle - before <= len(answers)
        await editor.close()


async def test_who_does_not_ask_for_it_is_told_nothing():
    for experimental in ({}, {"experimental": {"efimStatus": False}}, {"experimental": 5}, {"experimental": None}):
        async with launched() as editor:
            news = News(editor)
            await editor.start({**GHOST_TEXT, **experimental})
            assert await editor.open(SAYING).ghost() == "more"
            assert (await status(editor))["last"]["recomputed"] == 5
            assert news.told == []
            assert await editor.close() == 0


async def test_a_document_that_rules_leave_out_is_off_and_others_are_not():
    async with started(settings={"disabled_languages": ["rust"]}) as editor:
        off, on = editor.open("fn ‸", language="rust"), editor.open("def ‸")
        left_out = await status(editor, off.uri)
        assert left_out["state"] == "off" and "disabled_languages" in left_out["message"]
        assert (await status(editor, on.uri))["state"] == "ready"
        assert (await status(editor))["state"] == "ready"
