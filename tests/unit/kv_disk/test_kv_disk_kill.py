"""A server may die anywhere: the others find only whole blocks, and go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from kv_store.disk.disk_tier import DiskTier
from kv_store.disk.messages import DAMAGED
from tests.unit.kv_blocks import names_of, read, same, tier_of
from tests.unit.kv_storm import CHAINS, LENGTH, blocks, sound

ROOT = Path(__file__).parents[3]
SLOTS = 50  # of which all chains need 216
KILLS = 200
FEW = 30  # slots for the first two chains, but not for the third


class Process:
    """Another process with a server, which forks others; they report their progress through the pipe."""

    def __init__(self, path: Path, slots: int) -> None:
        self.progress, theirs = os.pipe()
        self.theirs = theirs
        command = [sys.executable, "-m", "tests.unit.kv_storm", str(path), str(slots)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[theirs]
        )

    def ask(self, *words: object) -> str:
        assert self.process.stdin and self.process.stdout
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def storm(self, first: int) -> int:
        return int(self.ask("storm", first, self.theirs))

    def wait_for(self, steps: int) -> None:
        while steps:
            steps -= len(os.read(self.progress, steps))

    def kill(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        assert self.ask("reap", child) == "reaped"

    def end(self) -> None:
        self.process.communicate()
        os.close(self.progress)
        os.close(self.theirs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model" / "blocks.kv"


@pytest.fixture
def process(path: Path) -> Iterator[Process]:
    process = Process(path, SLOTS)
    yield process
    process.end()


def test_a_killed_server_leaves_only_whole_blocks(path: Path, process: Process) -> None:
    moments, said = random.Random(0), list[str]()
    survivor = tier_of(path, SLOTS, said)
    assert process.ask("lookup", 0) == "0"
    for n in range(KILLS):
        child = process.storm(n)
        process.wait_for(moments.randint(1, 60))
        process.kill(child)
        for server in (survivor, tier_of(path, SLOTS, said)):
            assert sound(server)
            assert (server.stats().damaged, said) == (0, [])
        assert_saves(survivor, n % CHAINS)


def assert_saves(tier: DiskTier, chain: int) -> None:
    tier.save(blocks(chain))
    assert same(read(tier, names_of(chain, LENGTH)), blocks(chain))


def test_another_process_reads_what_is_written_and_misses_what_is_evicted(path: Path, process: Process) -> None:
    tier = tier_of(path, SLOTS)
    tier.save(blocks(0))
    assert process.ask("lookup", 0) == str(LENGTH)
    for chain in range(1, CHAINS):
        assert process.ask("write", chain) == "written"
        assert same(read(tier, names_of(chain, LENGTH)), blocks(chain))
    assert tier.lookup(names_of(0, LENGTH)) == int(process.ask("lookup", 0)) == 0


def test_two_killed_writers_leave_only_whole_blocks(path: Path, process: Process) -> None:
    moments, said = random.Random(1), list[str]()
    survivor = tier_of(path, SLOTS, said)
    for n in range(20):
        children = [process.storm(n), process.storm(n + CHAINS // 2)]
        process.wait_for(moments.randint(1, 400))
        assert sound(survivor)
        for child in children:
            process.kill(child)
        assert sound(survivor)
        assert_saves(survivor, n % CHAINS)
    assert (survivor.stats().damaged, said) == (0, [])


class Killed(BaseException):
    """Stands for the end of the process."""


class Death:
    """`os.pwrite` that works for the given number of calls; the last one may do half of its work."""

    def __init__(self, calls: int, torn: bool) -> None:
        self.left, self.torn, self.pwrite = calls, torn, os.pwrite

    def __call__(self, file: int, data: memoryview, at: int) -> int:
        self.left -= 1
        if self.left < 0:
            if self.left == -1 and self.torn:
                self.pwrite(file, data[: len(data) // 2], at)
            raise Killed
        return self.pwrite(file, data, at)


@pytest.mark.parametrize("torn", [False, True], ids=["between two writes", "within a write"])
def test_death_at_any_write_leaves_only_whole_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bool
) -> None:
    for calls in count():
        path, said = tmp_path / str(calls) / "blocks.kv", list[str]()
        survivor = filled(path, said)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", Death(calls, torn))
            completed = completes(path)
        for server in (survivor, tier_of(path, FEW, said)):
            assert sound(server)
            assert_saves(server, 5)
            assert sound(survivor)
        assert {*said} <= ({DAMAGED} if torn else set[str]())
        if completed:
            assert calls > 50
            return


def filled(path: Path, said: list[str]) -> DiskTier:
    tier = tier_of(path, FEW, said)
    tier.save(blocks(0))
    tier.save(blocks(1))
    return tier


def completes(path: Path) -> bool:
    """Evict and write, remove, write uses; returns false if the server dies before the end."""
    tier = tier_of(path, FEW)
    try:
        tier.save(blocks(2))
        tier.remove_document(1)
        tier.save(blocks(3))
    except Killed:
        return False
    return True
