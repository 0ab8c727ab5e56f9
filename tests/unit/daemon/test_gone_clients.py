"""What a client leaves once it has gone: nothing in a daemon's memory, and after a while no daemon."""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from efim_ls.daemon import process
from efim_ls.daemon.address import Address
from efim_ls.daemon.process import Daemon
from efim_ls.lsp.wire import framed
from efim_ls.workspace.thread import IndexThread
from model_runtime.machine import release_memory
from tests.waiting import HANG, eventually

pytestmark = pytest.mark.skipif(os.name != "posix", reason="each client has a server of its own here")

SHOWN = {"experimental": {"efimStatus": True}}  # a client to which each status is sent


def message(method: str, params: object = None, number: int | None = None) -> bytes:
    identity = {} if number is None else {"id": number}
    return framed(json.dumps({"jsonrpc": "2.0", **identity, "method": method, "params": params}).encode())


async def received(reader: asyncio.StreamReader) -> dict[str, Any]:
    header = await reader.readuntil(b"\r\n\r\n")
    return json.loads(await reader.readexactly(int(header.split(b"Content-Length: ")[1].split()[0])))


@asynccontextmanager
async def visit(address: Address, folder: Path) -> AsyncIterator[None]:
    """Open a document in a workspace, and leave after a suggestion."""
    reader, writer = await asyncio.open_unix_connection(str(address.socket))
    options = {"persist": False, "suggestions": 0}
    first = {"processId": None, "rootUri": folder.as_uri(), "capabilities": SHOWN, "initializationOptions": options}
    item = {"uri": (folder / "a.py").as_uri(), "languageId": "python", "version": 1, "text": "def area(r):\n    ret"}
    place = {"textDocument": {"uri": item["uri"]}, "position": {"line": 1, "character": 7}}
    writer.write(address.handshake("serve"))

    async def answer(method: str, params: object = None) -> Any:
        writer.write(message(method, params, 1))
        while "result" not in (told := await received(reader)):
            pass
        return told["result"]

    await answer("initialize", first)
    writer.write(message("initialized", {}))
    while (await received(reader)).get("params", {}).get("state") != "ready":
        pass
    writer.write(message("textDocument/didOpen", {"textDocument": item}))
    await answer("efim/settled")
    assert await answer("textDocument/inlineCompletion", place)
    yield
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_client_that_has_gone_leaves_nothing(tmp_path: Path, is_alone: bool) -> None:
    """Nor does it where another client goes on to use the index of the same workspace."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "b.py").write_text("def area(radius):\n    return 3 * radius ** 2\n")
    address, left, threads = Address(tmp_path, "key"), list[weakref.ref[object]](), list[IndexThread]()
    daemon = Daemon(address, address.listen())
    running = asyncio.ensure_future(daemon.run())

    def remember() -> None:
        """Note what there is of the client that came last."""
        *_, server = (client.server for client in daemon._clients if client.server)
        document = server.documents.last_used
        parts = (server, server.protocol, server.session, server.session.workspace, document)
        left.extend(map(weakref.ref, parts))

    async with nullcontext() if is_alone else visit(address, workspace):
        for _ in range(2):
            async with visit(address, workspace):
                remember()
                threads = [*daemon._indexes._threads.values()]
                assert len(threads) == 1
        await asyncio.to_thread(eventually, lambda: not any(each() for each in left), "the clients are kept")
        assert len(left) == 10
        assert [*daemon._indexes._threads.values()] == ([] if is_alone else threads)
        assert all(thread.ended(HANG) for thread in daemon._indexes._ending)
    daemon._stop()
    await running


async def test_a_client_that_a_thread_still_holds_is_freed_once_the_thread_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, held = Address(tmp_path, "key"), list[object]()
    daemon = Daemon(address, address.listen())
    running = asyncio.ensure_future(daemon.run())

    def release() -> None:
        """Free memory, and only then let go of the client: the first time comes too early."""
        release_memory()
        held.clear()

    monkeypatch.setattr(process, "release_memory", release)
    async with visit(address, tmp_path):
        held += [client.server for client in daemon._clients if client.server]
        left = weakref.ref(held[0])
    await asyncio.to_thread(eventually, lambda: left() is None, "the client is kept")
    assert held == []
    daemon._stop()
    await running


async def test_a_daemon_ends_some_time_after_its_last_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GREETING", 2 * HANG)  # nor does it end because nobody has come
    address = Address(tmp_path, "key")
    daemon = Daemon(address, address.listen(), idle=0)
    running = asyncio.ensure_future(daemon.run())
    async with visit(address, tmp_path):
        async with visit(address, tmp_path):
            pass
        await asyncio.to_thread(eventually, lambda: len(daemon._clients) == 1, "the client is kept")
        assert not running.done() and address.socket.exists()
    async with asyncio.timeout(HANG):
        await running
    assert not address.socket.exists()
