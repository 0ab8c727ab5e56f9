"""`efim-ls cache --shared`, as a user runs it, on what a team has on a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.command_line import run
from tests.shared.servers import PASSWORD, redis
from tests.shared.stores import colleague, read, save
from tests.unit.shared_shelves import KEY
from tests.waiting import HANG

CACHE = (sys.executable, "-m", "efim_ls", "cache")


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[str]:
    """A server with three blocks of a team and one of another."""
    for name, key in (("ours", KEY), ("theirs", KEY[::-1])):
        (tmp_path / name).write_text(key, "utf-8")
    with redis(tmp_path) as server:
        for name, blocks in (("ours", 3), ("theirs", 1)):
            opened = colleague(server.url, tmp_path / name)
            save(opened.store, 1, blocks)
            assert opened.store.close(HANG)
        yield json.dumps({"url": server.url, "key_file": str(tmp_path / "ours")})
        theirs = colleague(server.url, tmp_path / "theirs")
        assert read(theirs.store, 1, 1) == 1, "another team's blocks are gone"
        assert theirs.store.close(HANG)


def answered(answer: str, *arguments: str) -> tuple[int, str]:
    """Run a command on a terminal where somebody types an answer; return its status and output."""
    import pty  # not on Windows

    ours, terminal = pty.openpty()
    process = subprocess.Popen((*CACHE, *arguments), stdin=terminal, stdout=subprocess.PIPE, encoding="utf-8")
    os.close(terminal)
    os.write(ours, f"{answer}\n".encode())
    said, _ = process.communicate(timeout=HANG)
    os.close(ours)
    return process.returncode, said


def test_it_lists_what_the_team_has_without_the_password(setting: str) -> None:
    done = run("efim_ls", "cache", "ls", "--shared", setting)
    assert done.returncode == 0 and "3 blocks" in done.stdout and "redis://127.0.0.1:" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr


def test_what_others_use_is_removed_after_a_yes_alone(setting: str) -> None:
    refused = run("efim_ls", "cache", "clear", "--shared", setting)
    assert refused.returncode == 1 and "--yes" in refused.stderr
    status, said = answered("n", "clear", "--shared", setting)
    assert status == 1 and "Remove 3 blocks" in said and PASSWORD not in said
    assert "3 blocks" in run("efim_ls", "cache", "ls", "--shared", setting).stdout
    status, said = answered("yes", "clear", "--shared", setting)
    assert status == 0 and "removed: 3 blocks" in said
    assert "0 blocks" in run("efim_ls", "cache", "ls", "--shared", setting).stdout


def test_yes_asks_nothing(setting: str) -> None:
    done = run("efim_ls", "cache", "clear", "--shared", setting, "--yes")
    assert (done.returncode, done.stdout) == (0, "removed: 3 blocks\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "--shared", "{}"), "leave it out"),
        (("ls", "--shared", "redis://host"), "no JSON object"),
        (("ls", "--shared", "{}"), "names no 'url'"),
        (("ls", "--shared", '{"url": "redis://:secret@host", "encrypt": 1}'), "as 'encrypt'"),
        (("ls", "--shared", '{"url": "redis://:secret@host"}'), "openssl rand -hex 32"),
    ],
)
def test_a_mistake_is_told_without_the_password(arguments: tuple[str, ...], said: str) -> None:
    done = run("efim_ls", "cache", *arguments)
    assert done.returncode and said in done.stderr and "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY, "utf-8")
    setting = json.dumps({"url": "redis://127.0.0.1:1", "key_file": str(tmp_path / "key")})
    done = run("efim_ls", "cache", "ls", "--shared", setting)
    assert done.returncode == 1 and "cannot be reached" in done.stderr and len(done.stderr.splitlines()) == 1
