"""Stands between an editor and its server, and writes down what they say to each other.

    python recorder.py FILE COMMAND...    in place of the server COMMAND; FILE takes one message a line
    python recorder.py FILE               the initialize request in FILE, without what belongs to one machine

What the second prints is what tests/lsp/initialize/ holds for each editor.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any, TextIO

FOLDER = {"uri": "file:///project", "name": "project"}
OF_ONE_MACHINE = {
    "processId": 1,
    "rootPath": "/project",
    "rootUri": FOLDER["uri"],
    "workspaceFolders": [FOLDER],
}


def messages(stream: IO[bytes]) -> Iterator[bytes]:
    """The bodies of messages until the stream ends."""
    length = 0
    while header := stream.readline().lower():
        if header.startswith(b"content-length:"):
            length = int(header.split(b":")[1])
        elif not header.strip():
            yield stream.read(length)


def copy(name: str, source: IO[bytes], target: IO[bytes], log: TextIO, lock: threading.Lock) -> None:
    for body in messages(source):
        target.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        target.flush()
        with lock:
            log.write(json.dumps({"from": name, "message": json.loads(body)}, ensure_ascii=False) + "\n")
            log.flush()
    target.close()


def record(path: Path, command: list[str]) -> int:
    """Run a server for the editor at our own stdin and stdout; returns its exit status."""
    lock = threading.Lock()
    with path.open("a", encoding="utf-8") as log, Popen(command, stdin=PIPE, stdout=PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        asking = ("editor", sys.stdin.buffer, server.stdin, log, lock)
        threading.Thread(target=copy, args=asking, daemon=True).start()
        copy("server", server.stdout, sys.stdout.buffer, log, lock)
        return server.wait()


def cleaned(params: dict[str, Any]) -> dict[str, Any]:
    """What an editor says on every machine; what it leaves out stays left out."""
    return params | {name: value for name, value in OF_ONE_MACHINE.items() if params.get(name) is not None}


def main(path: Path, *command: str) -> int:
    if command:
        os._exit(record(path, list(command)) & 0xFF)  # where the server went first, a thread is still reading stdin
    for line in path.read_text("utf-8").splitlines():
        message = json.loads(line)["message"]
        if message.get("method") == "initialize":
            print(json.dumps(cleaned(message["params"]), indent=1, ensure_ascii=False))
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
