"""The usage statistics on disk: daily counts per language, without any text."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import cast, get_args

from efim_ls.paths import cache_folder
from efim_ls.settings import Settings
from efim_ls.sqlite_files import create_for_owner, is_damage
from efim_ls.usage.counters import Count
from kv_store.warn_once import WarnOnce

STATISTICS = "statistics.sqlite3"  # beside the models' folders
DAMAGED = ".damaged"  # suffix of a damaged file, which is renamed
WRITE_INTERVAL = 60.0  # seconds between writes, at least
LOCK_TIMEOUT = 1.0  # seconds to wait while another server writes
COLUMNS: tuple[Count, ...] = get_args(Count)

CREATE_TABLE = f"""CREATE TABLE IF NOT EXISTS days (day TEXT, language TEXT,
    {", ".join(f"{name} INTEGER NOT NULL" for name in COLUMNS)}, PRIMARY KEY (day, language)) WITHOUT ROWID"""
ADD_COUNTS = f"""INSERT INTO days VALUES (?, ?{", ?" * len(COLUMNS)}) ON CONFLICT DO UPDATE SET
    {", ".join(f"{name} = {name} + excluded.{name}" for name in COLUMNS)}"""
SUM_COUNTS = f"""SELECT language, {", ".join(f"SUM({name})" for name in COLUMNS)} FROM days
    WHERE day >= ? GROUP BY language"""

Key = tuple[str, str]  # a day and a language
Row = tuple[str | int, ...]


class UsageHistory:
    """Counts that one server adds to the file. `add` takes microseconds; a short-lived thread does the writing."""

    def __init__(
        self, settings: Callable[[], Settings], report: Callable[[str], None], interval: float = WRITE_INTERVAL
    ) -> None:
        """Write at most once per `interval` seconds if the current settings allow it; report each failure once."""
        self._settings, self._interval = settings, interval
        self._warnings = WarnOnce(report)
        # reentrant: a signal may interrupt a put
        self._items = SimpleQueue[tuple[Key, Mapping[Count, int]]]()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Add to today's counts; may be called on any thread."""
        self._items.put(((date.today().isoformat(), _storable(language)), counts))
        self._start_timer()

    def write(self) -> None:
        """Write the counts to the file now; counts that cannot be written are kept for the next attempt."""
        with self._writing:
            timer, self._timer = (
                self._timer,
                None,
            )  # before draining: a later item is drained too or starts a new timer
            if timer is not None:
                timer.cancel()
            settings, counted = self._settings(), _drained(self._items)
            if counted and settings.persist:
                self._write(settings.cache_folder, counted)

    def _start_timer(self) -> None:
        if self._timer is not None:
            return
        self._timer = threading.Timer(self._interval, self.write)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # the system has no thread left: what is counted waits for a later one
            self._timer = None

    def _write(self, folder: str, counted: Mapping[Key, Mapping[Count, int]]) -> None:
        try:
            if damage := add_counts(cache_folder(folder) / STATISTICS, counted):
                self._warnings.warn(
                    f"{STATISTICS} in the cache folder was damaged ({damage}): it was renamed to "
                    f"{STATISTICS}{DAMAGED}, and counting starts from zero"
                )
        except Exception as error:  # statistics are never a reason to fail
            for item in counted.items():
                self._items.put(item)
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            remedy = "the server will retry; if the problem stays, check the folder or set cache_folder"
            self._warnings.warn(f"the usage statistics cannot be written ({reason}): {remedy}")


def add_counts(path: Path, counted: Mapping[Key, Mapping[Count, int]]) -> str | None:
    """Add counts to the file, or to a new one if it is damaged; return what the damage was, None if there was none.

    Raises OSError, ValueError for a path that cannot be one, or sqlite3.Error; nothing was added then.
    """
    rows = [(*key, *(counts.get(name, 0) for name in COLUMNS)) for key, counts in counted.items()]
    inode = create_for_owner(path)
    try:
        _add(path, rows)
    except Exception as error:  # a text that is no UTF-8, for one, is no sqlite3.Error
        if not is_damage(error, path):
            raise
        if inode == path.stat().st_ino:  # else another server has already replaced it
            os.replace(path, f"{path}{DAMAGED}")
        create_for_owner(path)
        _add(path, rows)
        return str(error)
    return None


def counts_since(path: Path, since: date) -> dict[str, dict[Count, int]]:
    """Return the counts since a day, by language; raises sqlite3.Error."""
    try:
        with closing(_connect(path)) as connection:
            rows: list[tuple[object, ...]] = connection.execute(SUM_COUNTS, [since.isoformat()]).fetchall()
        return {str(language): _numbers(numbers) for language, *numbers in rows}
    except (ValueError, OverflowError) as error:  # of a damaged file
        raise sqlite3.DatabaseError(str(error)) from error


def _drained(queue: SimpleQueue[tuple[Key, Mapping[Count, int]]]) -> dict[Key, Counter[Count]]:
    """Take everything from a queue and return its sums."""
    counted = defaultdict[Key, Counter[Count]](Counter)
    try:
        while True:
            key, counts = queue.get_nowait()
            counted[key].update(counts)
    except Empty:
        return counted


def _storable(language: str) -> str:
    return language.encode("utf-8", "replace").decode()  # JSON can contain half a surrogate pair


def _numbers(sums: Sequence[object]) -> dict[Count, int]:
    """Return the sums by name; raises ValueError if one is no number, which SQLite does not prevent."""
    if not all(isinstance(each, int) for each in sums):
        raise ValueError("a count is not a number")
    return dict(zip(COLUMNS, cast("Sequence[int]", sums), strict=True))


def _add(path: Path, rows: Iterable[Row]) -> None:
    with closing(_connect(path)) as connection, connection:
        connection.execute(CREATE_TABLE)
        connection.executemany(ADD_COUNTS, rows)


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; a writer waits for other writers before it reads."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(where, timeout=LOCK_TIMEOUT, isolation_level="IMMEDIATE", uri=True)
