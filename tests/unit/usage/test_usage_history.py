"""The usage statistics on disk: shared by several servers, replaced if damaged, and never a reason to fail."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.settings import Settings
from efim_ls.usage.counters import COLUMNS, DAMAGED, STATISTICS, Count, UsageHistory, add_counts, counts_since
from tests.waiting import HANG, eventually

LATER = 3600.0  # seconds: nothing is written before the test says so


class Server:
    """One server's statistics, and its warnings."""

    def __init__(self, folder: Path, interval: float = LATER, persist: bool = True) -> None:
        self.settings = Settings(cache_folder=str(folder), persist=persist)
        self.warnings: list[str] = []
        self.history = UsageHistory(lambda: self.settings, self.warnings.append, interval)

    def add(self, language: str = "python", **counts: int) -> None:
        given: dict[Count, int] = {name: counts[name] for name in COLUMNS if name in counts}
        self.history.add(language, given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "cache"


def read(folder: Path) -> dict[str, dict[str, int]]:
    """The counts that are not 0, by language."""
    found = counts_since(folder / STATISTICS, date.min)
    return {language: {name: count for name, count in counts.items() if count} for language, counts in found.items()}


def counted(folder: Path) -> dict[str, dict[str, int]]:
    """The same, nothing where the file is not made yet."""
    try:
        return read(folder)
    except sqlite3.OperationalError:
        return {}


def test_without_a_thread_for_writing_nothing_fails_and_the_counts_wait(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    server = Server(folder)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Timer, "start", refused)
        server.add(shown=1)
    server.add(shown=2)
    assert server.history._timer is not None, "the next count starts one"
    server.history.write()
    assert read(folder) == {"python": {"shown": 3}} and not server.warnings


def test_counts_add_up_by_language(folder: Path) -> None:
    server = Server(folder)
    for _ in range(3):
        server.add(requests=1, reused=100)
    server.add("rust", requests=1)
    server.history.write()
    server.add(requests=1)
    server.history.write()
    assert read(folder) == {"python": {"requests": 4, "reused": 300}, "rust": {"requests": 1}}
    assert server.warnings == []


def test_counts_are_written_after_the_interval(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    assert not folder.exists()
    soon = Server(folder, interval=0.01)
    soon.add(requests=1)
    soon.add(requests=1)
    eventually(lambda: counted(folder) == {"python": {"requests": 2}}, "the counts are not written")


def test_without_persist_nothing_is_written(folder: Path) -> None:
    server = Server(folder, persist=False)
    server.add(requests=1)
    server.history.write()
    assert not folder.exists()
    server.settings = Settings(cache_folder=str(folder))
    server.add(requests=1)
    server.history.write()
    assert read(folder) == {"python": {"requests": 1}}


def test_without_counts_there_is_no_file(folder: Path) -> None:
    Server(folder).history.write()
    assert not folder.exists()


def test_file_and_folder_are_for_their_owner(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    server.history.write()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()] == [(STATISTICS, 0o600)]


def test_days_are_counted_separately(folder: Path) -> None:
    today = date.today()
    for days in (0, 1, 40):
        key = ((today - timedelta(days)).isoformat(), "python")
        assert add_counts(folder / STATISTICS, {key: {"requests": 1}}) is None
    since = [counts_since(folder / STATISTICS, today - timedelta(days)) for days in (0, 6, 40)]
    assert [found["python"]["requests"] for found in since] == [1, 2, 3]
    assert counts_since(folder / STATISTICS, today + timedelta(1)) == {}


ADDING = """
import sys
from datetime import date
from pathlib import Path
from efim_ls.settings import Settings
from efim_ls.usage.counters import UsageHistory
from efim_ls.usage.counters import STATISTICS, counts_since
folder, own = sys.argv[1:]
statistics = UsageHistory(lambda: Settings(cache_folder=folder), print, 3600.0)
for _ in range(30):
    statistics.add("python", {"requests": 1, "reused": 2})
    statistics.add(own, {"requests": 1})
    statistics.write()
while counts_since(Path(folder, STATISTICS), date.min)[own]["requests"] < 30:
    statistics.write()  # counts that other servers' locks delayed
"""


def test_several_servers_add_to_one_file(folder: Path) -> None:
    command = [sys.executable, "-c", ADDING, str(folder)]
    servers = [subprocess.Popen([*command, own], stdout=subprocess.DEVNULL) for own in "abc"]
    assert [server.wait(HANG) for server in servers] == [0, 0, 0]
    assert read(folder) == {"python": {"requests": 90, "reused": 180}} | dict.fromkeys("abc", {"requests": 30})


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def torn(path: Path) -> None:
    add_counts(path, {(str(day), "x" * 200): {"requests": 1} for day in range(100)})
    content = bytearray(path.read_bytes())
    content[100:] = bytes(len(content) - 100)
    path.write_bytes(content)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE days (something TEXT)")


@pytest.mark.parametrize("damage", [garbage, torn, foreign])
def test_a_damaged_file_is_renamed_with_one_warning(folder: Path, damage) -> None:
    folder.mkdir(parents=True)
    damage(folder / STATISTICS)
    damaged = (folder / STATISTICS).read_bytes()
    server = Server(folder)
    for _ in range(2):
        server.add(requests=1)
        server.history.write()
    assert read(folder) == {"python": {"requests": 2}}
    [complaint] = server.warnings
    assert "damaged" in complaint and DAMAGED in complaint and str(folder) not in complaint
    assert (folder / f"{STATISTICS}{DAMAGED}").read_bytes() == damaged
    assert stat.S_IMODE((folder / STATISTICS).stat().st_mode) == 0o600


def test_failed_writes_are_retried_with_one_warning(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    server = Server(folder)
    for _ in range(2):
        server.add(requests=1)
        server.history.write()
    [complaint] = server.warnings
    assert "cannot be written" in complaint and "cache_folder" in complaint
    folder.unlink()
    server.history.write()
    assert read(folder) == {"python": {"requests": 2}}


def test_a_locked_file_is_written_the_next_time(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    server.history.write()
    with closing(sqlite3.connect(folder / STATISTICS)) as other:
        other.execute("BEGIN EXCLUSIVE")
        server.add(requests=1)
        server.history.write()
        other.rollback()
    server.add(requests=1)
    server.history.write()
    assert read(folder) == {"python": {"requests": 3}}
    assert len(server.warnings) == 1


def test_an_empty_file_is_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / STATISTICS).touch()
    server = Server(folder)
    server.add(requests=1)
    server.history.write()
    assert read(folder) == {"python": {"requests": 1}}
    assert server.warnings == []


def test_a_language_with_half_a_surrogate_pair_is_counted(folder: Path) -> None:
    history = UsageHistory(lambda: Settings(cache_folder=str(folder)), print, 3600.0)
    history.add("py\ud800", {"requests": 1})
    history.write()
    assert read(folder) == {"py?": {"requests": 1}}


@given(bits=st.lists(st.integers(0, 508 * 8 - 1), min_size=1, max_size=3))
def test_no_flipped_bit_is_a_reason_to_fail(bits: list[int]) -> None:
    """Bits of what is not zero in the file, which is little of it."""
    with TemporaryDirectory() as name:
        path, server = Path(name, STATISTICS), Server(Path(name))
        server.add(requests=3)
        server.add("rust", requests=1)
        server.history.write()
        content = bytearray(path.read_bytes())
        used = [place for place, byte in enumerate(content) if byte]
        for bit in bits:
            content[used[bit // 8 % len(used)]] ^= 1 << bit % 8
        path.write_bytes(content)
        for _ in range(2):
            server.add(requests=1)
            server.history.write()
        assert len(server.warnings) <= 1 and all("renamed" in warning for warning in server.warnings)
        if server.warnings:
            assert read(Path(name)) == {"python": {"requests": 2}}
        try:
            read(Path(name))
        except sqlite3.Error:
            assert not server.warnings, "what is read of a row, SQLite has not looked at when it added to it"


def test_a_folder_that_cannot_be_a_path_is_no_reason_to_fail() -> None:
    server = Server(Path("/\ud800"))
    server.add(requests=1)
    server.history.write()
    [warning] = server.warnings
    assert "cannot be written" in warning


def test_a_text_that_is_no_number_is_told_as_sqlites_error(folder: Path) -> None:
    add_counts(folder / STATISTICS, {("2026-01-01", "python"): {"requests": 1}})
    with closing(sqlite3.connect(folder / STATISTICS)) as connection, connection:
        connection.execute("UPDATE days SET requests = 1.5")
    with pytest.raises(sqlite3.Error, match="not a number"):
        read(folder)
