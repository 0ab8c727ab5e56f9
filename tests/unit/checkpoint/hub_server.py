"""A server on loopback that speaks as much of the Hugging Face hub as its client asks for."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LARGE = ("model", "pytorch_model")  # what files that are kept by their SHA-256 are called like
COMMIT = "c" * 40
TOKEN = "hf_test"
PAUSE = 0.01  # seconds between two bytes of a file that comes slowly


@dataclass
class Hub:
    """Repositories, each a folder served at one commit, and all that was asked."""

    repositories: dict[str, Path]
    gated: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    drop_after: int | None = None  # bytes of a large file after which connections break off
    page: bytes | None = None  # what answers in place of a description
    more: int = 0  # bytes that come after the end of a large file
    slow: threading.Event | None = None  # until this is set, large files come byte by byte
    url: str = ""

    def files_asked(self, method: str = "GET") -> list[str]:
        return [line.split("/")[-1] for line in self.asked if line.startswith(f"{method} ") and "/resolve/" in line]


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and its body are two packets, of which the second would wait 40 ms

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, with_body: bool) -> None:
        path = self.path.split("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        self.hub.tokens += [token for token in (self.headers.get("authorization"),) if token]
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self.describe(found[1], found[2])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(found[1], found[2], found[3], with_body)
        else:
            self.refuse(404, "EntryNotFound")

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @property
    def is_known(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {TOKEN}"

    def may(self, name: str) -> bool:
        if name not in self.hub.repositories or (name in self.hub.private and not self.is_known):
            self.refuse(401, "RepoNotFound")
            return False
        return True

    def describe(self, name: str, revision: str) -> None:
        commit = revision if revision == COMMIT else self.hub.revisions.get(revision)
        if not self.may(name):
            return
        if commit is None:
            self.refuse(404, "RevisionNotFound")
            return
        folder = self.hub.repositories[name]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        siblings = [{"rfilename": path.relative_to(folder).as_posix(), **facts(path)} for path in files]
        gated = "manual" if name in self.hub.gated else False
        told = {"id": name, "sha": commit, "gated": gated, "siblings": siblings}
        body = json.dumps(told).encode() if self.hub.page is None else self.hub.page
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, name: str, commit: str, file: str, with_body: bool) -> None:
        if not self.may(name):
            return
        if name in self.hub.gated and not self.is_known:
            self.refuse(401, "GatedRepo")
            return
        path = self.hub.repositories[name] / file
        if not path.is_file():
            self.refuse(404, "EntryNotFound")
            return
        content, start = path.read_bytes() + bytes(self.hub.more * is_large(path)), 0
        if wanted := self.headers.get("Range"):
            self.hub.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{identity(path)}"')
        self.end_headers()
        if with_body:
            with suppress(ConnectionError):  # the client has had enough
                self.send_content(content[start:], is_large(path))

    def send_content(self, content: bytes, large: bool) -> None:
        if large and self.hub.drop_after is not None:
            self.wfile.write(content[: self.hub.drop_after])
            self.close_connection = True
            return
        sent = 0
        while large and self.hub.slow is not None and not self.hub.slow.wait(PAUSE) and sent < len(content) - 1:
            self.wfile.write(content[sent : sent + 1])
            sent += 1
        self.wfile.write(content[sent:])


def is_large(path: Path) -> bool:
    return path.suffix != ".json" and path.name.startswith(LARGE)


def identity(path: Path) -> str:
    content = path.read_bytes()
    if is_large(path):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def facts(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if not is_large(path):
        return {"size": size, "blobId": identity(path)}
    return {"size": size, "blobId": "0" * 40, "lfs": {"size": size, "sha256": identity(path), "pointerSize": 134}}


@contextmanager
def serving(**repositories: Path) -> Iterator[Hub]:
    """Serve folders as `owner/NAME`."""
    hub = Hub({f"owner/{name}": folder for name, folder in repositories.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        if hub.slow is not None:
            hub.slow.set()
        server.shutdown()
        server.server_close()
        thread.join()
