"""Real servers for a team's blocks, each in a process of its own on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import HANG, eventually

PASSWORD = "a-password"
BUCKET = "team"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def program() -> str:
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if not found:
        reason = "there is no valkey-server or redis-server: run `make editors`, or install one"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found


class Redis:
    """A Valkey or Redis server that keeps nothing on disk, with arguments of `redis.conf`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder, self._port = folder, free_port()
        self._arguments = (program(), "--bind", "127.0.0.1", "--port", str(self._port), "--requirepass", PASSWORD)
        self._arguments += ("--save", "", "--appendonly", "no", "--dir", str(folder), *arguments)
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.DEVNULL)
        try:
            eventually(self._answers, "the server does not start")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the server ended"
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as connection:
                connection.sendall(f"AUTH {PASSWORD}\r\nPING\r\n".encode())
                lines = connection.makefile("rb")
                return (lines.readline(), lines.readline()) == (b"+OK\r\n", b"+PONG\r\n")
        except OSError:
            return False


@contextmanager
def redis(folder: Path, *arguments: str) -> Iterator[Redis]:
    server = Redis(folder, *arguments)
    try:
        yield server
    finally:
        server.go_on()
        server.kill()


@contextmanager
def s3(set_variable: Callable[[str, str], None]) -> Iterator[str]:
    """An object store of Amazon's kind with an empty bucket; yield the bucket's address."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    process = subprocess.Popen(
        (sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _made_bucket(f"{address}/{BUCKET}"), "the object store does not start")
        set_variable("AWS_ENDPOINT_URL", address)
        set_variable("AWS_ACCESS_KEY_ID", "an-id")
        set_variable("AWS_SECRET_ACCESS_KEY", "a-secret")
        set_variable("AWS_REGION", "us-east-1")
        yield f"s3://{BUCKET}/caches"
    finally:
        process.kill()
        process.wait()


def _made_bucket(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=HANG) as answer:
            return answer.status == 200
    except OSError:
        return False
