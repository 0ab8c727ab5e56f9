"""Real clients of other servers: OpenAI's package for Python, and Tabby's agent in Node."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.editors.fetching.node import NODE, environment
from tests.http.server import HttpServer, serving
from tests.waiting import HANG

ROOT = Path(__file__).parents[2]
AGENT = Path(__file__).with_name("tabby") / "node_modules" / "tabby-agent" / "dist" / "cli.js"
TEXT = "import os\n\n\ndef main(path):\n    for name in os.lis"
CONFIGURATION = '[server]\nendpoint = "{}"\n[anonymousUsageTracking]\ndisable = true\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(tmp_path_factory.mktemp("cache")) as server:
        yield server


@pytest.fixture
def client(server: HttpServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openais_package_completes(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    told = client.completions.create(model=model.id, prompt="def add(a, b):\n    return ", suffix="\n", max_tokens=16)
    assert told.choices[0].text.startswith("a + b") and told.choices[0].finish_reason == "stop"
    assert told.usage and told.usage.prompt_tokens > 8 and told.model == model.id


CURL = re.findall(r"^    (curl -s localhost:8012.*)", (ROOT / "docs" / "http.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("line", CURL)
def test_the_lines_to_try_are_answered(server: HttpServer, line: str) -> None:
    if not shutil.which("curl"):
        (pytest.fail if "CI" in os.environ else pytest.skip)("there is no curl: install it")
    command = shlex.split(line.replace("localhost:8012", server.url.removeprefix("http://")))
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=HANG).stdout)
    said = answer.get("content") or answer.get("status") or answer["choices"][0]["text"]
    assert said == "ok" or said.startswith("a + b")


def test_openais_package_reads_a_stream(client: openai.OpenAI) -> None:
    prompt = "def subtract(a, b):\n    return "
    whole = client.completions.create(model="any", prompt=prompt).choices[0].text
    stream = client.completions.create(model="any", prompt=prompt, stream=True)
    assert "".join(each.choices[0].text for each in stream) == whole != ""


def test_openais_package_gets_several_and_short_ones(client: openai.OpenAI) -> None:
    prompt = "import os\n\n\ndef size(path):\n    return os."
    several = client.completions.create(model="any", prompt=prompt, n=3, max_tokens=32)
    texts = [each.text for each in several.choices]
    assert len({*texts}) == len(texts) == 3
    short = client.completions.create(model="any", prompt=prompt, max_tokens=1)
    assert short.choices[0].finish_reason == "length" and texts[0].startswith(short.choices[0].text)


def test_openais_package_raises_what_is_wrong(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="send each text in a separate request"):
        client.completions.create(model="any", prompt=[1, 2, 3])


class TabbyAgent:
    """Tabby's agent, asked over its standard input, a line of JSON for each request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._number = process, 0

    def ask(self, function: str, *arguments: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._number += 1
        print(json.dumps([self._number, {"func": function, "args": arguments}]), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            number, answer = json.loads(line)
            if number == self._number:
                return answer
        raise AssertionError("the agent has ended")


@contextmanager
def agent(server: HttpServer, home: Path) -> Iterator[TabbyAgent]:
    """An agent whose user has configured the server, and no statistics of use."""
    if not AGENT.exists():
        reason = f"{AGENT} is missing: run `make editors`"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    configuration = home / ".tabby-client" / "agent" / "config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(CONFIGURATION.format(server.url), "utf-8")
    pipe, env = subprocess.PIPE, {**environment(), "HOME": str(home)}
    with subprocess.Popen([NODE, AGENT], cwd=home, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield TabbyAgent(process)
        finally:
            process.kill()


def test_tabbys_agent_completes(server: HttpServer, tmp_path: Path) -> None:
    with agent(server, tmp_path) as tabby:
        assert tabby.ask("initialize", {"clientProperties": {"user": {}, "session": {"client": "test"}}}) is True
        assert tabby.ask("getStatus") == "ready"
        assert tabby.ask("getServerHealthState")["model"] == "efim-ls"
        place = {"filepath": "/src/a.py", "language": "python", "text": TEXT, "position": len(TEXT), "manually": True}
        told = tabby.ask("provideCompletions", place)
        assert [each["text"] for each in told["choices"]] == ["tdir("]
        shown = {"type": "view", "completion_id": told["id"], "choice_index": 0}
        assert tabby.ask("postEvent", shown) is True
