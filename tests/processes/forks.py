"""Servers and commands that start at once: forks of a process that has imported what they import.

These imports take a second of CPU time, and tests start hundreds of processes. How a process starts in earnest, by an
editor, by the relay of a daemon, by a service manager, is tried where that is tested.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any

from tests.waiting import HANG

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "efim_ls.cli",
    "efim_ls.lsp.server",
    "efim_ls.completion.models.open",
    "efim_ls.completion.shared_models",
    "efim_ls.commands.cache",
    "efim_ls.commands.complete",
    "efim_ls.commands.stats",
    "efim_ls.http.server",
    "editor_clients.headless.jsonl",
)
MOST_BYTES = 1 << 17  # of a command and its environment


class Fork:
    """A fork that runs a command, and its exit status once it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal to a fork that has not ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


class Process(Fork):
    """A fork with the methods of asyncio's processes."""

    def __init__(
        self, pid: int, status: Awaitable[int], stdin: asyncio.StreamWriter, *outputs: asyncio.StreamReader
    ) -> None:
        super().__init__(pid)
        self.stdin, (self.stdout, self.stderr) = stdin, outputs
        self._end = asyncio.ensure_future(self._until(status))

    async def _until(self, status: Awaitable[int]) -> int:
        self.returncode = await status
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start(command: Sequence[str], env: Mapping[str, str]) -> Process:
    """Start a command of Python's, as asyncio does: `-c CODE`, `-m MODULE` or a file, and arguments."""
    (stdin, into), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    report = _fork(command, env, None, stdin, stdout, stderr)
    for each in (stdin, stdout, stderr):
        os.close(each)
    pid = await _number(report)
    return Process(pid, _number(report), await _writer(into), await _reader(out), await _reader(err))


def run(
    command: Sequence[str], env: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of Python's to its end, without input; return its exit status, output and errors."""
    with open(os.devnull) as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        with _fork(command, env, folder, stdin.fileno(), stdout.fileno(), stderr.fileno()) as report:
            report.settimeout(HANG)
            _, code = int(report.recv(MOST_BYTES)), int(report.recv(MOST_BYTES))
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(command, code, stdout.read().decode(), stderr.read().decode())


class Child(Fork):
    """A fork without input whose output is read from pipes; leaving its context waits for its end."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        with open(os.devnull) as stdin:
            self._report = _fork(command, env, None, stdin.fileno(), stdout, stderr)
        os.close(stdout)
        os.close(stderr)
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        self._report.settimeout(HANG)
        super().__init__(int(self._report.recv(MOST_BYTES)))

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._report.recv(MOST_BYTES))
        return self.returncode

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._report.close()
        self.stdout.close()
        self.stderr.close()


def _fork(command: Sequence[str], env: Mapping[str, str], folder: Path | None, *streams: int) -> socket.socket:
    """Run a command with these streams; return the socket that receives its process id, then its exit status."""
    report, reporting = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    report.setblocking(False)
    wanted = json.dumps({"command": command, "env": dict(env), "folder": str(folder or os.getcwd())}).encode()
    assert len(wanted) < MOST_BYTES
    with reporting:
        socket.send_fds(_fork_server(), [wanted], [*streams, reporting.fileno()])
    return report


@cache
def _fork_server() -> socket.socket:
    """Start the fork server, which ends with this process; return the socket that takes commands."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.processes.forks", str(its.fileno())]
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])
    return ours


async def _number(report: socket.socket) -> int:
    """Return the next number that is reported."""
    return int(await asyncio.get_running_loop().sock_recv(report, MOST_BYTES))


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop, pipe = asyncio.get_running_loop(), os.fdopen(descriptor, "wb", buffering=0)
    made = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe)
    return asyncio.StreamWriter(*made, None, loop)


def serve(control: socket.socket) -> None:
    """Fork for each command that comes, until nobody can send another; then return, in a fork to run its command."""
    for each in IMPORTED:
        import_module(each)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that report
    while True:
        wanted, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 4)
        if not wanted:
            return
        if os.fork() == 0:
            control.close()
            _report(json.loads(wanted), *descriptors)
            return
        for each in descriptors:
            os.close(each)


def _report(wanted: dict[str, Any], stdin: int, stdout: int, stderr: int, report: int) -> None:
    """Run a command in a fork of this fork; report its process id, then its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(report)
        os.chdir(wanted["folder"])
        _run(wanted["command"], wanted["env"], (stdin, stdout, stderr))
        return
    for each in (stdin, stdout, stderr):
        os.close(each)
    os.write(report, b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(report, b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(command: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> None:
    """Do what Python does with a command."""
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    if command[0] == "-m":
        sys.argv = list(command[1:])
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    elif command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(command[1], main.__dict__)
    else:
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
