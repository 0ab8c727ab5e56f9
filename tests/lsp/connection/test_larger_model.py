"""A real server with two models in its process: the embedded one answers at once, the surer answer is shown."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from model_runtime.checkpoint.embedded import EMBEDDED
from tests.engine.speaking import speaking
from tests.lsp import wire
from tests.lsp.improvements import CAN_BE_TOLD, improvements
from tests.lsp.keeping import settled
from tests.lsp.wire import GHOST_TEXT, Editor, launched
from tests.waiting import HANG

LARGER = (sys.executable, str(Path(wire.__file__).with_name("serve_larger.py")))
TEXT = "def area(name, height):\n    return name * height\n\n\ndef area_of(name, height):\n    ret‸"
LINE = "    return int(name)\n"  # what the larger model says
SMALLER, SURER = "urn name", "urn int(name)"
OFF = {"prefetch_seconds_per_minute": 0}


class Gate:
    """A pipe before which the larger model waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = 0

    def shut(self) -> None:
        os.mkfifo(self.path)

    async def reached(self) -> None:
        """Wait until the larger model waits here."""
        async with asyncio.timeout(HANG):
            self._held = await asyncio.to_thread(os.open, self.path, os.O_WRONLY)

    def let_one_pass(self) -> None:
        os.close(self._held)

    def open(self) -> None:
        self.path.unlink()
        os.close(self._held)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setattr(wire, "ENV", {**wire.ENV, "GATE": str(tmp_path / "gate")})
    return Gate(tmp_path / "gate")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return speaking(tmp_path / "speaking", LINE)


@asynccontextmanager
async def typing(model: Path, client: dict[str, Any] = CAN_BE_TOLD, **settings: object) -> AsyncIterator[Editor]:
    """A server with that model, for a client that can be told of better suggestions, which ends well."""
    mine = {"model": str(model), "engine": {"wait_seconds": HANG}, **OFF, **settings}
    async with launched(LARGER) as editor:
        await editor.start(client, mine)
        yield editor
        assert await editor.close() == 0


async def heard(told: asyncio.Queue[str]) -> str:
    async with asyncio.timeout(HANG):
        return await told.get()


async def test_the_embedded_model_answers_at_once_and_the_surer_answer_replaces_it(gate: Gate, model: Path) -> None:
    gate.shut()
    async with typing(model) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        assert await page.ghost() == SMALLER
        await gate.reached()
        gate.open()
        assert await heard(told) == page.uri
        assert await page.ghost() == SURER
        page.type("urn i")
        assert await page.ghost() == "nt(name)"
        assert not editor.messages and not editor.stderr


async def test_who_cannot_be_told_gets_the_surer_answer_where_it_comes_in_time(gate: Gate, model: Path) -> None:
    async with typing(model, GHOST_TEXT) as editor:
        assert await editor.open(TEXT).ghost() == SURER


async def test_what_is_typed_through_stays_when_the_surer_answer_comes(gate: Gate, tmp_path: Path) -> None:
    gate.shut()
    async with typing(speaking(tmp_path / "longer", "    return name.value\n")) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        assert await page.ghost() == SMALLER
        await gate.reached()
        page.type("urn n")
        assert await page.ghost() == "ame"
        gate.open()
        await settled(editor)
        page.type("a")
        assert await page.ghost() == "me"
        assert told.empty()


async def test_an_answer_that_is_no_surer_changes_nothing(gate: Gate, tmp_path: Path) -> None:
    async with typing(speaking(tmp_path / "unsure", LINE, sure=0.3)) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        for _ in range(2):
            assert await page.ghost() == SMALLER
            await settled(editor)
        assert told.empty()


async def test_an_answer_that_comes_late_is_shown_once_its_place_is_asked_about(gate: Gate, model: Path) -> None:
    gate.shut()
    async with typing(model, engine={"wait_seconds": 0}) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        assert await page.ghost() == SMALLER
        await gate.reached()
        gate.open()
        await settled(editor)
        assert told.empty()
        assert await page.ghost() == SURER


async def test_the_larger_model_stops_once_its_document_is_closed(gate: Gate, model: Path) -> None:
    gate.shut()
    async with typing(model) as editor:
        page = editor.open(TEXT)
        assert await page.ghost() == SMALLER
        await gate.reached()
        page.close()
        assert await editor.open(TEXT.replace("height", "depth")).ghost() == SMALLER
        gate.let_one_pass()
        await editor.logged("the larger model is stopped")
        await gate.reached()
        gate.open()
        await settled(editor)
        assert (await editor.stats())["ahead"]["tokens"] == 0


async def test_both_models_share_the_memory_that_the_settings_grant(gate: Gate, model: Path) -> None:
    async with typing(model, engine={"alone": True}) as editor:
        [alone] = (await editor.ask("efim/status"))["models"]
    async with typing(model) as editor:
        assert await editor.open(TEXT).ghost() == SMALLER

        async def share() -> int:
            _, larger = (await editor.ask("efim/status"))["models"]
            assert larger["model"] == alone["model"]
            return larger["arenas"]

        async with asyncio.timeout(HANG):
            while await share() != alone["arenas"] // 2:
                continue  # it takes its share between two jobs of its thread


async def test_the_status_names_both_models_and_the_explanation_who_spoke(gate: Gate, model: Path) -> None:
    async with typing(model) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        assert await page.ghost() == SMALLER
        assert {each["source"] for each in (await page.explain())["suggestion"]["words"]} == {None}
        status = await editor.ask("efim/status")
        assert (status["model"], status["larger"], status["remote"]) == (str(EMBEDDED), str(model), "")
        assert [each["model"] for each in status["models"]] == [str(EMBEDDED), str(model)]
        await heard(told)
        assert await page.ghost() == SURER
        words = (await page.explain())["suggestion"]["words"]
        assert {each["source"] for each in words} == {f"from the model in {model}"}


async def test_a_larger_model_that_cannot_be_loaded_leaves_the_embedded_one(gate: Gate, model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    async with typing(model) as editor:
        status = await editor.ask("efim/status")
        assert status["state"] == "ready" and status["fallback"] and status["larger"] == ""
        [message] = editor.messages
        assert "using the embedded model, because" in message and status["fallback"] in message
        assert await editor.open(TEXT).ghost() == SMALLER
        said = f"the model in {model} cannot be used: {status['fallback']}"
        assert editor.stderr.count("\n") == editor.stderr.count(said) == 1


async def test_it_answers_alone_where_the_settings_say_so(gate: Gate, model: Path) -> None:
    async with typing(model, engine={"alone": True}) as editor:
        assert await editor.open(TEXT).ghost() == SURER
        status = await editor.ask("efim/status")
        assert (status["model"], status["larger"]) == (str(model), "")


async def test_it_answers_in_its_languages_alone_and_after_phrases_where_no_other_model_does(
    gate: Gate, tmp_path: Path
) -> None:
    model = speaking(tmp_path / "lua", LINE, programming_languages=["lua"])
    async with typing(model) as editor:
        told, page = improvements(editor), editor.open(TEXT)
        assert await page.ghost() == SMALLER
        await settled(editor)
        assert told.empty() and "*" not in (await editor.ask("efim/status"))["languages"]
        script = editor.open("function area_of(name)\n    ret‸", "file:///area.lua", "lua")
        assert await script.ghost() != SURER
        assert await heard(told) == script.uri
        assert await script.ghost() == SURER


async def test_what_it_has_computed_is_saved_and_found_again(gate: Gate, model: Path, tmp_path: Path) -> None:
    fetched = list[int]()
    for _ in range(2):
        async with typing(model, cache_folder=str(tmp_path / "cache")) as editor:
            told, page = improvements(editor), editor.open(TEXT, (tmp_path / "areas.py").as_uri())
            assert await page.ghost() == SMALLER
            await heard(told)
            fetched.append((await editor.stats())["last"]["fetched"])
            await settled(editor)
    assert fetched[0] == 0 < fetched[1]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority here")
async def test_its_thread_gives_way_to_others(gate: Gate, model: Path) -> None:
    async with typing(model) as editor:
        assert editor.client._server is not None
        tasks = Path(f"/proc/{editor.client._server.pid}/task").iterdir()
        niceness = [int((task / "stat").read_text().rpartition(")")[2].split()[16]) for task in tasks]
        assert max(niceness) == 10 and 0 in niceness


async def test_a_server_ends_while_the_larger_model_is_at_work(gate: Gate, model: Path) -> None:
    gate.shut()
    async with typing(model) as editor:
        assert await editor.open(TEXT).ghost() == SMALLER
        await gate.reached()
    gate.open()
