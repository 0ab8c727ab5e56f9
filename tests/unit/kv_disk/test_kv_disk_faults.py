"""What disks and systems may do to the disk tier: blocks are missing, and the user is warned once."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from kv_store.disk import disk_tier as disk
from kv_store.disk.disk_tier import DiskTier
from kv_store.disk.header import Header
from kv_store.disk.messages import DAMAGED, READ_ONLY, TOO_SMALL, UNSUPPORTED
from tests.unit.kv_blocks import FINGERPRINT, SLOT, capacity_of, chain_of, names_of, read, same, tier_of

ROOT = Path(__file__).parents[3]
SIZES = (SLOT, 3 * SLOT - 5, 1, SLOT)
WHOLE, NAMES = chain_of(0, 8, SIZES), names_of(0, 8)
HEADER = Header(FINGERPRINT, 20, SLOT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model" / "blocks.kv"


def opened(path: Path, said: list[str], capacity: int = capacity_of(20)) -> DiskTier | None:
    return DiskTier.open(path, FINGERPRINT, SLOT, capacity, said.append)


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Files of this process cannot grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_takes_what_fits_and_the_rest_when_there_is_room(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 20, said)
    with largest_file(capacity_of(20) - 15 * SLOT - 7):
        for _ in range(3):
            tier.save(WHOLE)
            assert same(read(tier, NAMES), WHOLE[:2])
    assert len(said) == 1
    assert "free some space" in said[0]
    tier.save(WHOLE)
    assert same(read(tier, NAMES), WHOLE)


class Failing:
    """A call that fails once, after `after` calls that work."""

    def __init__(self, name: str, after: int, number: int) -> None:
        self.call, self.left, self.number = getattr(os, name), after, number

    def __call__(self, *arguments: object) -> object:
        self.left -= 1
        if self.left == -1:
            raise OSError(self.number, os.strerror(self.number))
        return self.call(*arguments)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_after_any_failed_write_reads_are_right_and_later_writes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for calls in count():
        said, failing = list[str](), Failing("pwrite", calls, number)
        tier, other = (tier_of(tmp_path / str(calls), 15, said) for _ in range(2))
        tier.save(WHOLE)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", failing)
            tier.save(chain_of(1, 8, SIZES))
            tier.remove_document(2)
        tier.save(())
        for chain in (0, 1):
            found = read(tier, names_of(chain, 8))
            assert same(found, chain_of(chain, 8, SIZES)[: len(found)])
            assert same(read(other, names_of(chain, 8)), found)
        for each in (other, tier):
            each.save(WHOLE)
            assert same(read(each, NAMES), WHOLE)
        assert len(said) == (failing.left < 0)
        if failing.left >= 0:
            assert calls > 30
            return


@pytest.mark.parametrize("name, calls", [("preadv", 0), ("preadv", 1), ("pread", 0)])
def test_unreadable_blocks_are_missing_until_they_can_be_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int
) -> None:
    said = list[str]()
    tier = tier_of(path, 20, said)
    tier.save(WHOLE[:4])
    tier.save(chain_of(1, 1))
    tier.save(WHOLE)  # in two places
    with monkeypatch.context() as patch:
        patch.setattr(os, name, Failing(name, calls, errno.EIO))
        found = read(tier, NAMES)
    assert same(found, WHOLE[: len(found)])
    assert len(said) == 1
    assert "read (Input/output error)" in said[0]
    assert same(read(tier, NAMES), WHOLE)
    assert tier.stats().damaged == 0


def test_a_read_only_file_is_read_and_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier_of(path, 20).save(WHOLE)
    before, os_open, said = path.read_bytes(), os.open, list[str]()

    def read_only(name: Path, flags: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return os_open(name, flags)

    monkeypatch.setattr(os, "open", read_only)
    tier = opened(path, said)
    assert tier
    assert said == [READ_ONLY]
    for _ in range(2):
        assert same(read(tier, NAMES), WHOLE)
        tier.save(chain_of(1, 3))
        assert not tier.remove_document(1)
    assert said == [READ_ONLY]
    assert (path.read_bytes(), tier.lookup(names_of(1, 3))) == (before, 0)


@pytest.mark.parametrize("where", ["a file/model/blocks.kv", "a folder", "/proc/none/blocks.kv"])
def test_no_tier_without_a_usable_path(tmp_path: Path, where: str) -> None:
    (tmp_path / "a file").write_text("the user's")
    (tmp_path / "a folder").mkdir()
    said = list[str]()
    assert opened(tmp_path / where, said) is None
    assert len(said) == 1
    assert "cannot be used" in said[0]
    assert (tmp_path / "a file").read_text() == "the user's"


def test_no_tier_without_room_for_one_block(path: Path) -> None:
    said = list[str]()
    assert opened(path, said, capacity_of(1) - 1) is None
    assert said == [TOO_SMALL]
    assert not path.exists()
    assert opened(path, said, capacity_of(1))


def test_no_tier_on_an_unsupported_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr(disk, "SUPPORTED", False)
    assert opened(path, said) is None
    assert said == [UNSUPPORTED]


def test_the_module_is_imported_on_an_unsupported_system() -> None:
    without = "import sys, os, numpy, xxhash; sys.modules['fcntl'] = None; del os.preadv; sys.platform = 'win32'"
    check = f"{without}; from kv_store.disk.disk_tier import SUPPORTED; sys.exit(SUPPORTED)"
    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True)


def test_damaged_data_costs_the_block_and_its_descendants_once(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 20, said)
    tier.save(WHOLE)
    with path.open("r+b") as file:
        file.seek(HEADER.slot(5))  # of the fourth block
        file.write(b"damage")
    for _ in range(2):
        assert same(read(tier, NAMES), WHOLE[:3])
        assert tier.lookup(NAMES) == 3
    assert (tier.stats().damaged, said) == (1, [DAMAGED])
    tier.save(())
    assert tier_of(path, 20).stats().blocks == 3, "it is erased with all that cannot be reached without it"


@pytest.fixture(params=[bytes(64), b"damage"], ids=["missing", "damaged"])
def lossy(request: pytest.FixtureRequest, path: Path) -> Callable[[], list[str]]:
    """Loses one of the three records of the second block; returns the expected warnings."""

    def lose() -> list[str]:
        with path.open("r+b") as file:
            file.seek(HEADER.record(2))
            file.write(request.param)
        return [DAMAGED] if any(request.param) else []

    return lose


def test_a_lost_record_costs_its_block(path: Path, lossy: Callable[[], list[str]]) -> None:
    tier_of(path, 20).save(WHOLE)
    expected, said = lossy(), list[str]()
    tier = tier_of(path, 20, said)
    assert same(read(tier, NAMES), WHOLE[:1])
    tier.save(())
    assert said == expected
    assert path.read_bytes()[HEADER.record(1) : HEADER.record(4)] == bytes(3 * 64)
    tier.save(WHOLE)
    assert same(read(tier, NAMES), WHOLE)
    assert tier.stats().written == 1, "its descendants can be reached again"


def test_a_record_lost_while_a_server_runs_costs_the_descendants_too(
    path: Path, lossy: Callable[[], list[str]]
) -> None:
    said = list[str]()
    tier, other = tier_of(path, 20, said), tier_of(path, 20, said)
    tier.save(WHOLE)
    expected = lossy()
    other.save(chain_of(1, 1))
    assert same(read(tier, NAMES), WHOLE[:1])
    tier.save(())
    assert said == expected
    assert tier_of(path, 20).stats().blocks == 2


def test_a_closed_tier_is_empty(path: Path) -> None:
    tier = tier_of(path, 20)
    tier.save(WHOLE)
    files = len(os.listdir("/proc/self/fd"))
    tier.close()
    assert len(os.listdir("/proc/self/fd")) == files - 1
    assert (tier.lookup(NAMES), read(tier, NAMES), tier.stats().blocks) == (0, [], 0)


def test_a_closed_tier_changes_nothing_and_says_why(path: Path) -> None:
    said = list[str]()
    tier = tier_of(path, 20, said)
    tier.save(WHOLE)
    tier.close()
    tier.pin(NAMES)
    tier.touch(NAMES)
    assert said == []
    assert not tier.remove_document(WHOLE[0].document)
    assert len(said) == 1 and "cannot be erased" in said[0]
    assert same(read(tier_of(path, 20), NAMES), WHOLE)
