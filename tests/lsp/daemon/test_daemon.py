"""Clients of one daemon: real relays, a real model, and what becomes of them when a process dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from efim_ls.daemon.address import Address
from tests.lsp.daemon.clients import HEAD, ask_all, clients, gone, loaded, running, text_of
from tests.lsp.wire import REAL, launched
from tests.processes import daemons

pytestmark = pytest.mark.skipif(os.name != "posix", reason="each client has a server of its own here")


@pytest.fixture(autouse=True)
def each_starts_its_own():
    yield
    daemons.stop_all()


async def test_answers_are_those_of_a_server_alone(tmp_path: Path):
    async with clients(tmp_path, 3) as editors, launched(REAL, tmp_path / "alone") as alone:
        await alone.start()
        pages = [each.open(HEAD + "‸", "file:///a.py") for each in (*editors, alone)]
        said = await asyncio.gather(*(page.ask(1)[1] for page in pages))
        texts = [[item["insertText"] for item in each["items"]] for each in said]
        assert texts == [texts[-1]] * 4


async def test_clients_of_other_settings_have_models_of_their_own(tmp_path: Path):
    async with clients(tmp_path, 1) as (first,), clients(tmp_path, 1, {"max_lines": 40}) as (second,):
        for editor in (first, second):
            assert await editor.open(HEAD + "‸").item(1) is not None
        [daemon] = running(tmp_path)
        assert sorted(each["clients"] for each in daemon["models"]) == [1, 1]


async def test_a_killed_daemon_costs_no_letter_and_no_answer(tmp_path: Path):
    async with clients(tmp_path) as editors:
        pages = [editor.open(HEAD + "‸", "file:///a.py") for editor in editors]
        for number, word in enumerate(("get", "size", "(pa", "th)")):
            [daemon] = running(tmp_path)
            for page in pages:
                page.type(word[:1])
            asked = [page.ask(1)[1] for page in pages]
            os.kill(daemon["pid"], signal.SIGKILL)
            for page in pages:
                page.type(word[1:])
            await asyncio.gather(*asked)
            typed = HEAD + "".join(("get", "size", "(pa", "th)")[: number + 1])
            assert [await text_of(page) for page in pages] == [typed] * 2
        for editor in editors:  # once, at the third death in a row
            [told] = [each for each in editor.messages if "has died" in each]
            assert "has died 3 times in a row" in told
            assert any(str(log) in told for log in daemons.FOLDER.glob("*.log")), "the log of this daemon is named"
        for editor in editors:
            await loaded(editor)
        pages[0].edit(len(HEAD), len(pages[0].text), "")
        assert await pages[0].item(1) is not None
        assert [await editor.close() for editor in editors] == [0, 0]


async def test_long_edited_documents_are_not_kept_edit_by_edit(tmp_path: Path):
    async with clients(tmp_path, 1) as (editor,):
        page = editor.open("‸")
        for number in range(1_000):
            page.type(f"# {number}\n")
        assert await text_of(page) == page.text
        [daemon] = running(tmp_path)
        os.kill(daemon["pid"], signal.SIGKILL)
        page.type("x = 1")
        assert await text_of(page) == page.text


async def test_a_stopped_daemon_comes_back_when_the_user_types(tmp_path: Path):
    async with clients(tmp_path, 1) as (editor,):
        page = editor.open(HEAD + "‸")
        assert await page.item(1) is not None
        [before] = running(tmp_path)
        assert ask_all("stop", tmp_path / "other") == "no server is running\n", (
            "one with another cache folder goes on"
        )
        assert running(tmp_path) == [before]
        assert ask_all("stop", tmp_path) == "ended 1 server\n"
        await gone(before["pid"])
        assert running(tmp_path) == []
        page.type("get")
        assert await text_of(page) == HEAD + "get"
        [after] = running(tmp_path)
        assert after["pid"] != before["pid"]
        assert ask_all("stop", tmp_path / "other", "--all") == "ended 1 server\n"


def test_a_newer_version_replaces_it_once_its_clients_are_gone():
    old, new, other = (Address(daemons.FOLDER, f"python\n{root}\n{time}\nA=1") for root, time in VERSIONS)
    daemons.FOLDER.mkdir(mode=0o700, exist_ok=True)
    with serving(other), serving(old) as (mine, pid), serving(new) as (_, newer):
        assert len({pid, newer}) == 2
        assert old.connect() is not None, "it still has a client"
        mine.close()
        while os.path.exists(f"/proc/{pid}"):
            pass
        assert old.connect() is None and new.connect() is not None
    assert other.connect() is not None and new.connect() is not None, "these wait for their clients to come back"


VERSIONS = (("/a", 1), ("/a", 2), ("/b", 1))


@contextmanager
def serving(address: Address) -> Iterator[tuple[socket.socket, int]]:
    """A connection to a daemon that begins as a client's does, and the daemon's process."""
    with address.join() as connection, address.join() as asking:
        connection.sendall(address.handshake("serve"))
        asking.sendall(address.handshake("status"))
        yield connection, json.loads(asking.makefile("rb").read())["pid"]


async def test_without_a_folder_for_sockets_a_client_is_served_alone(tmp_path: Path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file")
    async with clients(tmp_path, 1, XDG_RUNTIME_DIR=nowhere, TMPDIR=nowhere) as (editor,):
        assert await editor.open(HEAD + "‸").item(1) is not None
        await editor.logged("this client gets a separate server, because ")
        assert await editor.close() == 0


async def test_shared_off_is_a_server_alone(tmp_path: Path):
    async with clients(tmp_path, 1, {"shared": False}) as (editor,):
        assert await editor.open(HEAD + "‸").item(1) is not None
        assert running(tmp_path) == []
        assert await editor.close() == 0


async def test_complete_joins_a_daemon_that_runs(tmp_path: Path):
    file = tmp_path / "a.py"
    file.write_text(HEAD, "utf-8")
    alone = json.loads(ask_all("complete", tmp_path, f"{file}:5:20", "--json"))
    async with clients(tmp_path, 1) as (editor,):
        joined = [json.loads(ask_all("complete", tmp_path, f"{file}:5:20", "--json")) for _ in range(2)]
        assert [each["text"] for each in joined] == [alone["text"]] * 2 != [""] * 2
        assert joined[1]["costs"]["recomputed"] < alone["costs"]["recomputed"], "the daemon had computed it"
        file.write_bytes(b"\xff")
        with pytest.raises(subprocess.CalledProcessError) as failed:
            ask_all("complete", tmp_path, f"{file}:1:1")
        assert failed.value.returncode == 2 and "is not UTF-8 text: convert it" in failed.value.stderr
        assert await editor.close() == 0
        ask_all("stop", tmp_path)
    assert not list((tmp_path / "efim-ls").glob("*/notes/*.note")), "something of the file was kept"
