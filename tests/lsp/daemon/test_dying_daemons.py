"""Daemons that die, hang or lack what they need: no text is lost, and the user is told why."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from efim_ls.daemon.address import KEY, Address
from efim_ls.daemon.link import read_message, relay_message
from efim_ls.daemon.relay import HOPELESS
from efim_ls.lsp.wire import REFUSED
from tests.lsp.daemon.clients import HEAD, clients, gone, loaded, running, text_of
from tests.lsp.wire import ENV, GHOST_TEXT, REAL, launched
from tests.processes import daemons
from tests.waiting import HANG

pytestmark = pytest.mark.skipif(os.name != "posix", reason="each client has a server of its own here")
MAIN = "from efim_ls.daemon.relay import main; main()"
IMPATIENT = "import efim_ls.daemon.link as link; link.LOOK, link.START = 1.0, 1000; " + MAIN
DYING = "import os, sys\nif 'EFIM_DAEMON_KEY' in os.environ:\n    sys.modules['psutil'] = None\n"
FEW_FILES = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
    "os.execv(sys.executable, [sys.executable, '-m', 'efim_ls', 'serve'])"
)


@pytest.fixture(autouse=True)
def each_starts_its_own():
    yield
    daemons.stop_all()


async def test_a_hung_daemon_is_replaced_and_no_letter_is_lost(tmp_path: Path):
    async with clients(tmp_path, 2, command=(sys.executable, "-c", IMPATIENT)) as editors:
        pages = [each.open(HEAD + "‸", "file:///a.py") for each in editors]
        await asyncio.gather(*map(text_of, pages))
        [before] = running(tmp_path)
        os.kill(before["pid"], signal.SIGSTOP)
        pages[0].type("get")
        pages[1].edit(0, 0, "# " + "x" * 400_000 + "\n")  # more than waits in a socket
        assert [await text_of(page) for page in pages] == [page.text for page in pages]
        told = [asyncio.create_task(each.logged("the server does not answer, and is replaced")) for each in editors]
        await next(asyncio.as_completed(told))  # the first to notice ends the daemon, and the other one sees it dead
        for task in told:
            task.cancel()
        await gone(before["pid"])
        for each in editors:
            await loaded(each)
        assert await pages[0].item(1) is not None


@contextmanager
def visited(pid: int) -> Iterator[bool]:
    """A client of a daemon, and whether it was refused."""
    environ = Path(f"/proc/{pid}/environ").read_text("utf-8").split("\0")
    [key] = [each.removeprefix(f"{KEY}=") for each in environ if each.startswith(f"{KEY}=")]
    [path] = daemons.FOLDER.glob("*.sock")
    with socket.socket(socket.AF_UNIX) as visitor, visitor.makefile("rb") as told:
        visitor.settimeout(HANG)
        visitor.connect(str(path))
        visitor.sendall(Address(daemons.FOLDER, key).handshake("serve"))
        yield relay_message(read_message(told) or b"")[0] == REFUSED


async def test_a_client_for_whom_no_files_are_left_gets_a_server_of_its_own(tmp_path: Path):
    few = (sys.executable, "-c", FEW_FILES)
    async with clients(tmp_path, 1, command=few) as (first,), launched(REAL, tmp_path, is_alone=False) as late:
        [daemon] = running(tmp_path)
        with ExitStack() as visitors:
            while not visitors.enter_context(visited(daemon["pid"])):
                pass
            await late.start(GHOST_TEXT)
            await late.logged("because the server of the other editors can open no more files: raise the limit")
            assert await late.open(HEAD + "‸").item(1) is not None
        assert await first.open(HEAD + "‸").item(1) is not None, "the others are served as before"
        assert [await first.close(), await late.close()] == [0, 0]


async def test_editors_that_start_python_in_another_way_share_a_daemon(tmp_path: Path):
    with_settings = clients(tmp_path, 1, PYTHONSAFEPATH="1", PYTHONUTF8="1", HOMEBREW_PREFIX="/opt")
    async with clients(tmp_path, 1), with_settings:
        [daemon] = running(tmp_path)
        assert len(daemon["clients"]) == 2
        soft, hard = resource.prlimit(daemon["pid"], resource.RLIMIT_NOFILE)
        assert soft >= min(hard, 8192), "many editors find room"


async def test_a_client_whose_daemons_die_before_they_serve_gets_a_server_of_its_own(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(DYING)
    quick = (sys.executable, "-c", "import efim_ls.daemon.relay as relay; relay.SHORTEST = 0; " + MAIN)
    path = f"{tmp_path}{os.pathsep}{ENV['PYTHONPATH']}"
    async with launched(quick, tmp_path, is_alone=False, env={"PYTHONPATH": path}) as editor:
        await editor.start(GHOST_TEXT)
        await editor.logged("gets a separate server, because the daemon ended before it served anybody")
        assert await editor.open(HEAD + "‸").item(1) is not None
        logs = [log.read_text("utf-8") for log in daemons.FOLDER.glob("*.log")]  # killed daemons leave theirs
        [log] = [log for log in logs if "import of psutil halted" in log]
        assert log.count("import of psutil halted") == HOPELESS, "what each said is kept"
        assert await editor.close() == 0
