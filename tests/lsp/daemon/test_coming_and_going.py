"""Clients that come and go while a daemon and its model go on, and strangers at its door."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lsp.daemon.clients import HEAD, clients, running, text_of
from tests.processes import daemons
from tests.waiting import HANG, eventually

pytestmark = pytest.mark.skipif(os.name != "posix", reason="each client has a server of its own here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of one daemon, which each test leaves without clients."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def clients_leave(cache: Path) -> Iterator[None]:
    yield
    eventually(lambda: not any(each["clients"] for each in running(cache)), "a client of the daemon stays")


async def test_clients_share_a_model_and_nothing_of_their_texts(cache: Path):
    async with clients(cache) as (first, second):
        one, two = first.open(HEAD + "‸", "file:///same.py"), second.open(HEAD + "get‸", "file:///same.py")
        assert await one.item(1) is not None and await two.item(1) is not None
        assert (await text_of(one), await text_of(two)) == (HEAD, HEAD + "get")
        two.type("size")
        one.close()
        assert (await text_of(one), await text_of(two)) == (None, HEAD + "getsize")
        [daemon] = running(cache)
        assert [each["clients"] for each in daemon["models"]] == [2] and len(daemon["clients"]) == 2
        assert [await first.close(), await second.close()] == [0, 0]


async def test_a_killed_client_leaves_nothing_behind(cache: Path):
    async with clients(cache) as (first, second):
        first.open(HEAD + "‸")
        page = second.open(HEAD + "‸")
        assert first.client._server is not None
        first.client._server.kill()
        await first.gone()
        async with asyncio.timeout(HANG):
            while len(running(cache)[0]["clients"]) > 1:
                pass
        [daemon] = running(cache)
        assert [each["clients"] for each in daemon["models"]] == [1]
        assert await page.item(1) is not None


async def test_a_suspended_client_keeps_no_other_waiting(cache: Path):
    async with clients(cache) as (first, second):
        assert first.client._server is not None
        first.client._server.send_signal(signal.SIGSTOP)
        held = first.open(HEAD + "‸")
        asked = [held.ask(1)[1] for _ in range(50)]
        assert await second.open(HEAD + "‸").item(1) is not None
        first.client._server.send_signal(signal.SIGCONT)
        assert all(await asyncio.gather(*asked))


STRANGER = """import os, socket, sys
os.setgid(65534), os.setuid(65534)
with socket.socket(socket.AF_UNIX) as knocking:
    try:
        knocking.connect(sys.argv[1])
        knocking.sendall(b'{"want": "status"}\\n')
        print(knocking.recv(99))
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may become another user")
async def test_another_user_gets_no_door(cache: Path):
    async with clients(cache, 1):
        [path] = daemons.FOLDER.glob("*.sock")

        def knock() -> str:
            told = subprocess.run([sys.executable, "-c", STRANGER, str(path)], capture_output=True, text=True)
            return told.stdout.strip() or told.stderr

        Path(daemons.RUNTIME.name).chmod(0o755)
        assert knock() == "PermissionError"
        daemons.FOLDER.chmod(0o755)  # even where somebody has opened the folder, and the socket too
        path.chmod(0o777)
        cut_off = await asyncio.to_thread(knock)
        daemons.FOLDER.chmod(0o700)
        path.chmod(0o600)
        assert cut_off in ("b''", "ConnectionResetError", "BrokenPipeError")


async def test_a_stranger_is_cut_off_and_harms_nobody(cache: Path):
    async with clients(cache, 1) as (editor,):
        [path] = daemons.FOLDER.glob("*.sock")
        for greeting in (b"\xff\n", b"{}\n", b"[1]\n", b'{"want": "serve", "key": "x"}\n', b"x" * 100_000):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(HANG)
                stranger.connect(str(path))
                try:
                    stranger.sendall(greeting)
                    assert stranger.recv(1) == b""
                except (ConnectionResetError, BrokenPipeError):
                    pass
        assert await editor.open(HEAD + "‸").item(1) is not None


async def test_many_come_and_go(cache: Path):
    async with clients(cache, 1) as (editor,):
        [before] = running(cache)
        [path] = daemons.FOLDER.glob("*.sock")
        for _ in range(1_000):
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(str(path))
        assert await editor.open(HEAD + "‸").item(1) is not None
        [after] = running(cache)
        assert after["pid"] == before["pid"] and len(after["clients"]) == 1
