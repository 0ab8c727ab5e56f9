"""Numbers that outlive the server: what was counted on each day for each language, and no text of anybody."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import date
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import get_args

from efim_ls.paths import cache_folder
from efim_ls.settings import Settings
from efim_ls.usage.counters import Count
from kv_store.atomic_files import make_folder
from kv_store.warn_once import WarnOnce

STATISTICS = "statistics.sqlite3"  # beside the models' folders
DAMAGED = ".damaged"  # ends the name of a file that is put aside
EVERY = 60.0  # seconds between writes, at least
PATIENCE = 1.0  # seconds to wait for other servers that write
UNUSABLE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)  # the last: not our table
COLUMNS: tuple[Count, ...] = get_args(Count)

TABLE = f"""CREATE TABLE IF NOT EXISTS days (day TEXT, language TEXT,
    {", ".join(f"{name} INTEGER NOT NULL" for name in COLUMNS)}, PRIMARY KEY (day, language)) WITHOUT ROWID"""
ADD = f"""INSERT INTO days VALUES (?, ?{", ?" * len(COLUMNS)}) ON CONFLICT DO UPDATE SET
    {", ".join(f"{name} = {name} + excluded.{name}" for name in COLUMNS)}"""
SUM = f"SELECT language, {', '.join(f'SUM({name})' for name in COLUMNS)} FROM days WHERE day >= ? GROUP BY language"

Key = tuple[str, str]
Item = tuple[Key, Mapping[Count, int]]


class Statistics:
    """What one server adds to the file. `add` costs microseconds; a short thread writes, at most once a minute."""

    def __init__(self, settings: Callable[[], Settings], report: Callable[[str], None], every: float = EVERY) -> None:
        """Write where the settings say at that time, if they let anything be kept; tell of failures, once of each."""
        self._settings, self._every = settings, every
        self._warnings = WarnOnce(report)
        self._items = SimpleQueue[Item]()  # reentrant: a signal may interrupt who puts
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Count what happened today; on any thread."""
        storable = language.encode("utf-8", "replace").decode()  # JSON may bring half a surrogate pair
        self._items.put(((date.today().isoformat(), storable), counts))
        if self._timer is None:
            self._timer = threading.Timer(self._every, self.write)
            self._timer.daemon = True
            self._timer.start()

    def write(self) -> None:
        """Add what was counted to the file, now; what cannot be written is kept for the next time."""
        with self._writing:
            timer, self._timer = self._timer, None  # first: what is put from here on is drained, or has a timer again
            if timer is not None:
                timer.cancel()
            settings = self._settings()
            if (counted := self._drained()) and settings.persist:
                self._write(cache_folder(settings.cache_folder) / STATISTICS, counted)

    def _drained(self) -> dict[Key, Counter[Count]]:
        counted = defaultdict[Key, Counter[Count]](Counter)
        try:
            while True:
                key, counts = self._items.get_nowait()
                counted[key].update(counts)
        except Empty:
            return counted

    def _write(self, path: Path, counted: Mapping[Key, Mapping[Count, int]]) -> None:
        try:
            if damage := add_to(path, counted):
                self._warnings.warn(f"{path.name} in the cache's folder was damaged ({damage}): it is put aside as "
                                     f"{path.name}{DAMAGED}, and counting begins anew")  # fmt: skip
        except (OSError, sqlite3.Error) as error:
            for item in counted.items():
                self._items.put(item)
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            remedy = "should they not be later either, mend their folder or set cache_folder"
            self._warnings.warn(f"statistics cannot be written now ({reason}): {remedy}")


def add_to(path: Path, counted: Mapping[Key, Mapping[Count, int]]) -> str | None:
    """Add counts to the file, or to a new one if it is damaged; returns what the damage was.

    Raises OSError and sqlite3.Error; then nothing was added.
    """
    make_folder(path.parent)
    rows = [(*key, *(counts.get(name, 0) for name in COLUMNS)) for key, counts in counted.items()]
    number = _open_for_owner(path)
    try:
        _add(path, rows)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in UNUSABLE:  # the rest says more of what it is
            raise
        if number == path.stat().st_ino:  # else another server was faster
            os.replace(path, f"{path}{DAMAGED}")
        _open_for_owner(path)
        _add(path, rows)
        return str(error)
    return None


def sums(path: Path, since: date) -> dict[str, dict[Count, int]]:
    """What was counted from a day on, by language; raises sqlite3.Error."""
    with closing(_connect(path)) as connection:
        rows: list[tuple[str, *tuple[int, ...]]] = connection.execute(SUM, [since.isoformat()]).fetchall()
    return {language: dict(zip(COLUMNS, numbers, strict=True)) for language, *numbers in rows}


def _open_for_owner(path: Path) -> int:
    """Make the file where there is none, mode 0600, as SQLite's own beside it will be; returns its number."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _add(path: Path, rows: Iterable[tuple[str | int, ...]]) -> None:
    with closing(_connect(path)) as connection, connection:
        connection.execute(TABLE)
        connection.executemany(ADD, rows)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that is there; who will write waits for the others before it reads."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(where, timeout=PATIENCE, isolation_level="IMMEDIATE", uri=True)
