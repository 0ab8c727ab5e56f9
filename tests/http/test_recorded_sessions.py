"""Sessions of llama.vim and llama.vscode, replayed: every request is answered, and few prompt tokens are computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.http.server import serving
from tests.http.sessions import RECORDED

NEEDED = 10.0  # prompt tokens a key, on average, after the first request
SESSIONS = sorted(RECORDED.glob("*.jsonl"))


def best(answer: Any) -> dict[str, Any]:
    """The first of several completions, or the only one."""
    return answer[0] if isinstance(answer, list) else answer


def computed(answer: dict[str, Any]) -> int:
    return answer["timings/prompt_n"] if "timings/prompt_n" in answer else answer["timings"]["prompt_n"]


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_session_is_answered_from_what_was_computed(tmp_path: Path, path: Path) -> None:
    requests = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with serving(tmp_path) as server:
        warmed, first, *answers = [best(server.post("/infill", each)) for each in requests]
        assert warmed.get("content", "") == ""
        assert computed(first) > 300
        costs = [computed(each) for each in answers]
        assert len(costs) > 40 and sum(costs) / len(costs) < NEEDED, costs
        assert sum(bool(each["content"]) for each in answers) > len(answers) / 3
        code, errors = server.stop()
    assert (code, errors) == (0, "")


def test_there_are_sessions() -> None:
    assert {path.stem for path in SESSIONS} == {"llama_vim", "llama_vscode"}
