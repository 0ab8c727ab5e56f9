"""What each dialect answers, field by field: tests/golden/http has a request and its answer in each file.

`python -m tests.http.test_dialects` writes the answers again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.http.server import STAND_IN, HttpServer, serving

GOLDEN = Path(__file__).parents[1] / "golden" / "http"
FILES = sorted(GOLDEN.glob("*.json"))
# What differs from run to run, or from machine to machine.
VARYING = {"id", "created", "build_info", "model_path", "arch", "cpu_info", "cpu_count", "git_describe"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(tmp_path_factory.mktemp("cache"), command=STAND_IN) as server:
        yield server


def told(server: HttpServer, asked: dict[str, Any]) -> dict[str, Any]:
    """The status of an answer and its body, without what varies."""
    content = None if (body := asked.get("body")) is None else json.dumps(body)
    answer = server.client.request(asked["method"], asked["path"], content=content)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        return {"status": answer.status_code, "events": [steady(_event(line)) for line in lines]}
    return {"status": answer.status_code, "body": steady(answer.json()) if answer.content else None}


def _event(line: str) -> Any:
    return json.loads(line) if line.startswith("{") else line


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "..." if name in VARYING else steady(each) for name, each in value.items()}
    return [steady(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_answer_is_as_the_file_says(server: HttpServer, path: Path) -> None:
    expected = json.loads(path.read_text("utf-8"))
    assert told(server, expected["request"]) == expected["answer"]


def test_each_path_is_looked_at() -> None:
    paths = {json.loads(path.read_text("utf-8"))["request"]["path"] for path in FILES}
    source = (Path(__file__).parents[2] / "efim_ls" / "http" / "app.py").read_text("utf-8")
    assert paths >= set(re.findall(r'(?:post|Route)\("([^"]+)"', source)) != set()


def test_answers_are_compact_json(server: HttpServer) -> None:
    """llama.vim looks for `"content":"` before it reads an answer."""
    body = json.dumps({"input_prefix": "# say x\n", "input_suffix": "", "prompt": "", "response_fields": ["content"]})
    assert server.client.post("/infill", content=body).text == '{"content":"x"}'


def main() -> None:
    with TemporaryDirectory() as cache, serving(Path(cache), command=STAND_IN) as server:
        for path in FILES:
            request = json.loads(path.read_text("utf-8"))["request"]
            golden = {"request": request, "answer": told(server, request)}
            path.write_text(json.dumps(golden, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
