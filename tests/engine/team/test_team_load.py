"""Many people at one server: every key is asked once, and costs are those that the server reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.gate.team.load import run_load
from efim_lab.gate.team.people import PersonKey
from efim_lab.gate.team.report import summary
from model_runtime.errors import EngineError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.setting import RemoteOptions
from tests.engine.remote.fakes import FakeServer

TEXTS = ("def total(values):\n    return ", "def total(values):\n    return s", "def total(values):\n    return su")


@pytest.fixture
def people(tokenizer: Tokenizer) -> list[list[PersonKey]]:
    one = [tokenizer.encode(text) for text in TEXTS]
    return [[PersonKey((one[0],), one[0]), *(PersonKey((), ids) for ids in one[1:])] for _ in range(3)]


def test_all_keys_of_all_people_are_asked(people: list[list[PersonKey]], server: FakeServer, folder: Path) -> None:
    run = run_load(people, RemoteOptions(url=server.url), folder, 2, 0)
    asked = server.bodies
    assert len(run.rows) == len(asked) == 3 * 4
    sessions = [
        session for (path, _), session in zip(server.asked, server.sessions, strict=True) if "completion" in path
    ]
    assert sorted(map(sessions.count, set(sessions))) == [4] * 3, "a router tells people apart"
    assert [row.is_ahead for row in run.rows] == [True, False, False, False] * 3
    assert all(row.new <= 2 and row.prompt for row in run.rows)
    if server.kind == "vllm":
        assert len({body["cache_salt"] for body in asked}) == 3
    if server.kind == "llama.cpp":
        assert [body["id_slot"] for body in asked].count(0) == 2 * 4, "two places for three people"
    figures = summary(run, 3)
    assert (figures["server"], figures["keys"], figures["users"]) == (server.kind, 9, 3)
    assert ("cached_share" in figures) == (server.kind != "openai")
    if server.kind == "llama.cpp":  # whose costs are exact: only the token that gives the logits is computed
        total = sum(len(key.ids) for keys in people for key in keys)
        computed = figures["computed_tokens"] * 9
        assert figures["cached_share"] == pytest.approx(1 - computed / total) and computed >= 9


def test_a_server_that_fails_under_load_is_named(
    people: list[list[PersonKey]], server: FakeServer, folder: Path
) -> None:
    class Fails(list[PersonKey]):
        def __iter__(self):  # noqa: ANN204
            server.status = 500
            return super().__iter__()

    with pytest.raises(WorkError, match=r"127\.0\.0\.1:\d+ failed under this load \(HTTPStatusError\): see its log"):
        run_load([Fails(people[0])], RemoteOptions(url=server.url), folder, 2, 0)
    server.status = 200


def test_a_server_that_is_down_is_named(people: list[list[PersonKey]], folder: Path) -> None:
    with pytest.raises(EngineError, match="refuses connections"):
        run_load(people, RemoteOptions(url="http://127.0.0.1:9"), folder, 2, 0)
