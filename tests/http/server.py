"""A real server of HTTP for tests, and the requests that clients send to it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.lsp.wire import ENV
from tests.waiting import HANG

REAL = (sys.executable, "-m", "efim_ls", "serve", "--http", "0")
STAND_IN = (sys.executable, "-m", "tests.http.stand_in")
LISTENING = re.compile(r"listening on (http://\S+)")


class HttpServer:
    def __init__(self, process: subprocess.Popen[str], url: str, cache: Path) -> None:
        self.process, self.url, self.cache = process, url, cache
        self.port = int(url.rpartition(":")[2])
        self.client = httpx2.Client(base_url=url, timeout=HANG)

    @property
    def token(self) -> str:
        return Path(self.cache, "efim-ls", "http-token").read_text("ascii").strip()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def infill(self, before: str, after: str = "", **more: Any) -> Any:
        """What llama.vim sends: the lines above, what follows, and the line's beginning apart."""
        above, _, line = before.rpartition("\n")
        body = {"input_prefix": f"{above}\n", "prompt": line, "input_suffix": after, "n_predict": 128}
        return self.post("/infill", body | more)

    def stop(self) -> tuple[int, str]:
        """End it as a service manager does; returns its exit status and what else it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=HANG)
        return self.process.returncode, errors


@contextmanager
def serving(cache: Path, *options: str, command: tuple[str, ...] = REAL, **env: str) -> Iterator[HttpServer]:
    """A server that listens on a free port."""
    env = {**ENV, **env, "XDG_CACHE_HOME": str(cache)}
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, *options], env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stderr is not None
            lines = list[str]()
            while not (found := LISTENING.search(line := process.stderr.readline())):
                lines.append(line)
                assert line, f"the server ended: {lines}"
            process.stderr.readline()  # where the token is
            yield HttpServer(process, found[1], cache)
        finally:
            process.kill()
