"""A real server of HTTP for tests, and the requests that clients send to it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.lsp.wire import ENV
from tests.processes.forks import Child
from tests.waiting import HANG

REAL = ("-m", "efim_ls", "serve", "--http", "0")
STAND_IN = ("-m", "tests.http.stand_in")
LISTENING = re.compile(r"listening on (http://\S+)")


class HttpServer:
    def __init__(self, process: Child, url: str, cache: Path) -> None:
        self.process, self.url, self.cache = process, url, cache
        self.port = int(url.rpartition(":")[2])
        self.client = httpx2.Client(base_url=url, timeout=HANG)

    def renew_client(self) -> None:
        """Ask by a new connection from now on: the server may just be ending one that was silent for long."""
        self.client.close()
        self.client = httpx2.Client(base_url=self.url, timeout=HANG)

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
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(), self.process.stderr.read()


@contextmanager
def serving(cache: Path, *options: str, command: tuple[str, ...] = REAL, **env: str) -> Iterator[HttpServer]:
    """A server that listens on a free port."""
    env = {**ENV, **env, "XDG_CACHE_HOME": str(cache)}
    with Child([*command, *options], env) as process:
        try:
            lines = list[str]()
            while not (found := LISTENING.search(line := process.stderr.readline())):
                lines.append(line)
                assert line, f"the server ended: {lines}"
            process.stderr.readline()  # where the token is
            yield HttpServer(process, found[1], cache)
        finally:
            process.send_signal(signal.SIGKILL)
