"""Numbers on disk: added up by several servers, whole after damage, and never a reason to fail."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest

from efim_ls.settings import Settings
from efim_ls.usage.counters import Count
from efim_ls.usage.history import COLUMNS, DAMAGED, STATISTICS, Statistics, add_to, sums

HANG = 60  # seconds after which a test fails rather than wait on
LATER = 3600.0  # seconds: nothing is written before the test says so


class Server:
    """One server's statistics, and its complaints."""

    def __init__(self, folder: Path, every: float = LATER, persist: bool = True) -> None:
        self.settings = Settings(cache_folder=str(folder), persist=persist)
        self.complaints: list[str] = []
        self.statistics = Statistics(lambda: self.settings, self.complaints.append, every)

    def add(self, language: str = "python", **counts: int) -> None:
        given: dict[Count, int] = {name: counts[name] for name in COLUMNS if name in counts}
        self.statistics.add(language, given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "cache"


def read(folder: Path) -> dict[str, dict[str, int]]:
    """The counts that are not 0, by language."""
    found = sums(folder / STATISTICS, date.min)
    return {language: {name: count for name, count in counts.items() if count} for language, counts in found.items()}


def counted(folder: Path) -> dict[str, dict[str, int]]:
    """The same, nothing where the file is not made yet."""
    try:
        return read(folder)
    except sqlite3.OperationalError:
        return {}


def test_counts_add_up_by_language(folder: Path) -> None:
    server = Server(folder)
    for _ in range(3):
        server.add(requests=1, reused=100)
    server.add("rust", requests=1)
    server.statistics.write()
    server.add(requests=1)
    server.statistics.write()
    assert read(folder) == {"python": {"requests": 4, "reused": 300}, "rust": {"requests": 1}}
    assert server.complaints == []


def test_nothing_is_written_before_it_is_due_and_then_all(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    assert not folder.exists()
    soon = Server(folder, every=0.01)
    soon.add(requests=1)
    soon.add(requests=1)
    end = time.monotonic() + HANG
    while counted(folder) != {"python": {"requests": 2}}:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_where_nothing_may_be_kept_nothing_is(folder: Path) -> None:
    server = Server(folder, persist=False)
    server.add(requests=1)
    server.statistics.write()
    assert not folder.exists()
    server.settings = Settings(cache_folder=str(folder))
    server.add(requests=1)
    server.statistics.write()
    assert read(folder) == {"python": {"requests": 1}}


def test_without_counts_there_is_no_file(folder: Path) -> None:
    Server(folder).statistics.write()
    assert not folder.exists()


def test_only_its_owner_may_read_it(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    server.statistics.write()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()] == [(STATISTICS, 0o600)]


def test_days_are_apart(folder: Path) -> None:
    today = date.today()
    for days in (0, 1, 40):
        key = ((today - timedelta(days)).isoformat(), "python")
        assert add_to(folder / STATISTICS, {key: {"requests": 1}}) is None
    since = [sums(folder / STATISTICS, today - timedelta(days)) for days in (0, 6, 40)]
    assert [found["python"]["requests"] for found in since] == [1, 2, 3]
    assert sums(folder / STATISTICS, today + timedelta(1)) == {}


ADDING = """
import sys
from datetime import date
from pathlib import Path
from efim_ls.settings import Settings
from efim_ls.usage.history import STATISTICS, Statistics, sums
folder, own = sys.argv[1:]
statistics = Statistics(lambda: Settings(cache_folder=folder), print, 3600.0)
for _ in range(30):
    statistics.add("python", {"requests": 1, "reused": 2})
    statistics.add(own, {"requests": 1})
    statistics.write()
while sums(Path(folder, STATISTICS), date.min)[own]["requests"] < 30:
    statistics.write()  # what others were in the way of
"""


def test_several_servers_add_to_one_file(folder: Path) -> None:
    command = [sys.executable, "-c", ADDING, str(folder)]
    servers = [subprocess.Popen([*command, own], stdout=subprocess.DEVNULL) for own in "abc"]
    assert [server.wait(HANG) for server in servers] == [0, 0, 0]
    assert read(folder) == {"python": {"requests": 90, "reused": 180}} | dict.fromkeys("abc", {"requests": 30})


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def torn(path: Path) -> None:
    add_to(path, {(str(day), "x" * 200): {"requests": 1} for day in range(100)})
    content = bytearray(path.read_bytes())
    content[100:] = bytes(len(content) - 100)
    path.write_bytes(content)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE days (something TEXT)")


@pytest.mark.parametrize("damage", [garbage, torn, foreign])
def test_a_damaged_file_is_put_aside_and_told_once(folder: Path, damage) -> None:
    folder.mkdir(parents=True)
    damage(folder / STATISTICS)
    damaged = (folder / STATISTICS).read_bytes()
    server = Server(folder)
    for _ in range(2):
        server.add(requests=1)
        server.statistics.write()
    assert read(folder) == {"python": {"requests": 2}}
    [complaint] = server.complaints
    assert "damaged" in complaint and DAMAGED in complaint and str(folder) not in complaint
    assert (folder / f"{STATISTICS}{DAMAGED}").read_bytes() == damaged
    assert stat.S_IMODE((folder / STATISTICS).stat().st_mode) == 0o600


def test_what_cannot_be_written_now_is_written_later_and_told_once(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    server = Server(folder)
    for _ in range(2):
        server.add(requests=1)
        server.statistics.write()
    [complaint] = server.complaints
    assert "cannot be written" in complaint and "cache_folder" in complaint
    folder.unlink()
    server.statistics.write()
    assert read(folder) == {"python": {"requests": 2}}


def test_a_file_that_is_in_use_for_long_is_waited_for_until_the_next_time(folder: Path) -> None:
    server = Server(folder)
    server.add(requests=1)
    server.statistics.write()
    with closing(sqlite3.connect(folder / STATISTICS)) as other:
        other.execute("BEGIN EXCLUSIVE")
        server.add(requests=1)
        server.statistics.write()
        other.rollback()
    server.add(requests=1)
    server.statistics.write()
    assert read(folder) == {"python": {"requests": 3}}
    assert len(server.complaints) == 1


def test_an_empty_file_is_begun(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / STATISTICS).touch()
    server = Server(folder)
    server.add(requests=1)
    server.statistics.write()
    assert read(folder) == {"python": {"requests": 1}}
    assert server.complaints == []


def test_a_language_that_is_no_text_is_counted_too(folder: Path) -> None:
    add_to_file = Statistics(lambda: Settings(cache_folder=str(folder)), print, 3600.0)
    add_to_file.add("py\ud800", {"requests": 1})
    add_to_file.write()
    assert read(folder) == {"py?": {"requests": 1}}
