"""A real server beside an engine on another machine, which comes, goes and comes back while someone types."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import quick_decoder_of
from tests.engine.remote.fakes import serving
from tests.engine.remote.test_local_first import Saying
from tests.lsp.improvements import CAN_BE_TOLD, improvements
from tests.lsp.wire import ENV, GHOST_TEXT, PATIENT, started
from tests.waiting import HANG

TEXT = "def area(width, height):\n    return width * height\n\n\ndef area_of(width, height):\n    ret‸"
LINE = "    return width + height\n"


@pytest.fixture
def server() -> Iterator[Saying]:
    with serving(Saying(quick_decoder_of(EMBEDDED), Tokenizer(EMBEDDED / "tokenizer.json"))) as served:
        assert isinstance(served, Saying)
        served.line, served.sure, served.context = LINE, 0.9999, 2560
        yield served


async def test_its_answers_come_in_time_and_its_failures_cost_nothing(server: Saying, tmp_path: Path) -> None:
    settings = {"engine": {"url": server.url, "wait_seconds": HANG}, "prefetch_seconds_per_minute": 0}
    async with started(PATIENT, GHOST_TEXT, settings) as editor:
        page = editor.open(TEXT, uri=(tmp_path / "areas.py").as_uri())
        assert await page.ghost() == "urn width + height"
        assert (await editor.ask("efim/status"))["remote"] == server.url.removeprefix("http://")
        page.type("urn w")
        assert await page.ghost() == "idth + height"
        server.status = 500
        page.edit(page.cursor - len("urn w"), page.cursor, "")
        page.type("\n    ret")
        assert (await page.ghost() or "").startswith("urn"), "this machine answers"
        told = await editor.ask("efim/status", {"textDocument": {"uri": page.uri}})
        assert "The remote model gives no answer" in told["notice"] and "status 500" in told["notice"]
        server.go.clear()
        page.type("urn")
        assert await page.ghost() is not None, "nobody waits for a server that rests"
        assert not editor.messages


async def test_private_files_are_not_sent_by_default(server: Saying, tmp_path: Path) -> None:
    settings = {"engine": {"url": server.url, "wait_seconds": HANG}, "private_files": ["*/areas.py"]}
    async with started(PATIENT, GHOST_TEXT, settings) as editor:
        page = editor.open(TEXT, uri=(tmp_path / "areas.py").as_uri())
        assert await page.ghost() not in (None, "urn width + height")
        assert server.asked == []


async def test_secrets_in_a_text_are_not_sent(server: Saying, tmp_path: Path) -> None:
    settings = {"engine": {"url": server.url, "wait_seconds": HANG}}
    async with started(PATIENT, GHOST_TEXT, settings) as editor:
        page = editor.open(f"API_KEY = 'hunter2hunter3'\n{TEXT}", uri=(tmp_path / "areas.py").as_uri())
        assert await page.ghost() == "urn width + height"
        sent = [server.tokenizer.decode(np.array(body["prompt"])) for body in server.bodies]
        assert sent and all("API_KEY" in text and "hunter2" not in text for text in sent)


def test_the_doctor_tries_it(server: Saying, tmp_path: Path) -> None:
    env = {**ENV, "COLUMNS": "200", "XDG_CACHE_HOME": str(tmp_path)}

    def run(engine: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "efim_ls", "doctor", "--engine", engine]
        return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=HANG, check=False)

    done = run(json.dumps({"url": server.url, "kind": "vllm"}))
    assert done.returncode == 0 and done.stdout.startswith("works: "), done.stdout
    for said in ("engine on another machine", "vllm", "tiny", "2,560 tokens", "128 tokens: what a key"):
        assert said in done.stdout
    server.status = 500
    failed = run(server.url)
    assert failed.returncode == 1 and "cannot be used, since" in failed.stdout and "status 500" in failed.stdout
    assert run("no address").returncode == 2


async def test_a_client_that_can_be_told_gets_the_answer_of_this_machine_at_once(
    server: Saying, tmp_path: Path
) -> None:
    settings = {"engine": {"url": server.url, "wait_seconds": HANG}, "prefetch_seconds_per_minute": 0}
    async with started(PATIENT, CAN_BE_TOLD, settings) as editor:
        told = improvements(editor)
        server.go.clear()
        page = editor.open(TEXT, uri=(tmp_path / "areas.py").as_uri())
        first = await page.ghost()
        assert first is not None and first != "urn width + height"
        server.go.set()
        async with asyncio.timeout(HANG):
            assert await told.get() == page.uri
        assert await page.ghost() == "urn width + height"
        page.type("urn w")
        assert await page.ghost() == "idth + height"
        assert told.empty(), "what is no better is not told"
