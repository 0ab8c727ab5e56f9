"""Clients that send the text at each key have their keys and values reused, and the completions of an editor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import efim_ls.session.session as module
from efim_ls.http.body import RequestFields
from efim_ls.http.completions import Completions
from efim_ls.http.llama_cpp import LlamaCppDialect
from efim_ls.session.loader import load_completer
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from tests.http.server import HttpServer, serving
from tests.lsp.wire import REAL, launched
from tests.waiting import HANG

SOURCE = Path(module.__file__).read_text("utf-8")
LINE = "        self.documents.rules = Rules(self.settings, self.workspace.folders)\n"
BEFORE, AFTER = SOURCE.split(LINE)
CHEAP = 24  # tokens: a word of several tokens, and what a line's end adds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(tmp_path_factory.mktemp("cache")) as server:
        yield server


def typed(server: HttpServer, before: str, line: str, after: str, **more: Any) -> list[dict[str, Any]]:
    """The answers while a line is typed key by key."""
    return [server.infill(before + line[:end], after, **more) for end in range(len(line) + 1)]


def test_a_key_computes_few_tokens(server: HttpServer) -> None:
    first, *answers = typed(server, BEFORE, LINE.rstrip(), "\n" + AFTER)
    computed = [each["timings"]["prompt_n"] for each in answers]
    assert first["timings"]["prompt_n"] > 500
    assert max(computed) <= CHEAP and sum(computed) / len(computed) < 4, computed
    assert all(each["tokens_cached"] > 500 for each in answers)


def test_a_client_that_sends_lines_around_the_cursor_has_the_same(server: HttpServer) -> None:
    """Its part of the text moves down with each new line, so that another line is the first one."""
    lines, computed = SOURCE.splitlines(keepends=True), list[int]()
    above, below = lines[60:100], "".join(lines[112:132])
    for line in lines[100:112]:
        for end in range(0, len(line), 4):
            told = server.infill("".join(above[-40:]) + line[:end], "\n" + below)
            computed.append(told["timings"]["prompt_n"])
        above.append(line)
    first, *later = computed
    assert first > 200 and sum(later) / len(later) < 8, computed


async def test_a_text_is_completed_as_in_an_editor(tmp_path: Path) -> None:
    lines = ["        self.documents.ru", "        self.background.drop_", "        for change in ch"]
    with serving(tmp_path / "http") as server:
        over_http = [server.infill(BEFORE + line, "\n" + AFTER)["content"] for line in lines]
    async with launched(REAL, tmp_path / "lsp") as editor:
        await editor.start()
        page = editor.open(f"{BEFORE}‸\n{AFTER}", uri="untitled:a.py")
        in_editor = list[str]()
        for line in lines:
            page.edit(len(BEFORE), page.cursor, line)
            in_editor.append(await page.ghost() or "")
        assert await editor.close() == 0
    assert over_http == in_editor and all(over_http), (over_http, in_editor)


async def test_warming_computes_what_the_first_key_needs() -> None:
    session = Session(load_completer)
    session.configure(Settings(persist=False))
    await session.load(lambda _, __: None)
    assert session.model.completer is not None
    dialect = LlamaCppDialect(Completions(session, session.model.completer.tokenizers, "model"))
    asked = {"input_prefix": BEFORE, "input_suffix": f"\n{AFTER}", "prompt": ""}
    opened = {"input_prefix": SOURCE[:40], "input_suffix": SOURCE[40:]}
    await dialect.infill(RequestFields(opened))
    await session.settled()
    warmed = json.loads(bytes((await dialect.infill(RequestFields({**asked, "n_predict": 0}))).body))
    assert (warmed["content"], warmed["timings"]["prompt_n"]) == ("", 0)
    await session.settled()
    told = json.loads(bytes((await dialect.infill(RequestFields({**asked, "prompt": "        s"}))).body))
    assert told["timings"]["prompt_n"] <= CHEAP < told["tokens_cached"]
    assert session.close(HANG)


def test_texts_of_other_files_are_read_for_their_phrases(tmp_path: Path) -> None:
    text = "class Shop:\n    def total(self):\n        return zephyr_quintessence(self.items, self.taxes)\n" * 3
    before = "import os\n\ndef f(self):\n    return zephyr_quintessence("
    names = ("other.py", "other.rs", ".env.py", "secrets/other.py", "")
    with serving(tmp_path) as server:
        told = [server.infill(before, "\n", input_extra=[{"filename": name, "text": text}]) for name in names]
    assert [each["content"] for each in told] == ["self.", "", "", "", ""]
