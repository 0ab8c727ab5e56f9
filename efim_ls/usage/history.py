"""The usage statistics on disk: daily counts per language and per bin of confidences, without any text."""

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
from types import MappingProxyType
from typing import TypeVar, cast, get_args

from efim_ls.paths import cache_folder
from efim_ls.settings import Settings
from efim_ls.sqlite_files import create_for_owner, is_damage
from efim_ls.usage.confidence_bins import BIN_PERCENT, BinCount, BinCounts, ConfidenceBin
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

BIN_COLUMNS: tuple[BinCount, ...] = get_args(BinCount)
BIN_STARTS = range(0, 100, BIN_PERCENT)
CREATE_BINS = """CREATE TABLE IF NOT EXISTS confidence_bins (day TEXT, language TEXT, percent INTEGER,
    shown INTEGER NOT NULL, kept INTEGER NOT NULL, PRIMARY KEY (day, language, percent)) WITHOUT ROWID"""
ADD_BINS = """INSERT INTO confidence_bins VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    shown = shown + excluded.shown, kept = kept + excluded.kept"""
FIND_BINS = "SELECT 1 FROM sqlite_master WHERE name = 'confidence_bins'"  # a file of an older server has none
SUM_BINS = """SELECT language, percent, SUM(shown), SUM(kept) FROM confidence_bins
    WHERE day >= ? GROUP BY language, percent"""

Key = tuple[str, str]  # a day and a language
BinKey = tuple[str, ConfidenceBin]
Row = tuple[str | int, ...]
K = TypeVar("K")
C = TypeVar("C")


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
        self._bin_items = SimpleQueue[tuple[BinKey, Mapping[BinCount, int]]]()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Add to today's counts; may be called on any thread."""
        self._items.put(((date.today().isoformat(), _storable(language)), counts))
        self._start_timer()

    def add_to_bin(self, bin: ConfidenceBin, count: BinCount) -> None:
        """Count a suggestion in its bin of confidences, if the current settings allow it; on any thread."""
        if self._settings().adaptive_confidence:
            stored = bin._replace(language=_storable(bin.language))
            self._bin_items.put(((date.today().isoformat(), stored), {count: 1}))
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
            settings, counted, bins = self._settings(), _drained(self._items), _drained(self._bin_items)
            if (counted or bins) and settings.persist:
                self._write(settings.cache_folder, counted, bins)

    def _start_timer(self) -> None:
        if self._timer is not None:
            return
        self._timer = threading.Timer(self._interval, self.write)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # the system has no thread left: what is counted waits for a later one
            self._timer = None

    def _write(
        self,
        folder: str,
        counted: Mapping[Key, Mapping[Count, int]],
        bins: Mapping[BinKey, Mapping[BinCount, int]],
    ) -> None:
        try:
            if damage := add_counts(cache_folder(folder) / STATISTICS, counted, bins):
                self._warnings.warn(
                    f"{STATISTICS} in the cache folder was damaged ({damage}): it was renamed to "
                    f"{STATISTICS}{DAMAGED}, and counting starts from zero"
                )
        except Exception as error:  # statistics are never a reason to fail
            for item in counted.items():
                self._items.put(item)
            for item in bins.items():
                self._bin_items.put(item)
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            remedy = "the server will retry; if the problem stays, check the folder or set cache_folder"
            self._warnings.warn(f"the usage statistics cannot be written ({reason}): {remedy}")


def add_counts(
    path: Path,
    counted: Mapping[Key, Mapping[Count, int]],
    bins: Mapping[BinKey, Mapping[BinCount, int]] = MappingProxyType({}),
) -> str | None:
    """Add counts to the file, or to a new one if it is damaged; return what the damage was, None if there was none.

    Raises OSError, ValueError for a path that cannot be one, or sqlite3.Error; nothing was added then.
    """
    rows = [(*key, *(counts.get(name, 0) for name in COLUMNS)) for key, counts in counted.items()]
    bin_rows = [(day, *bin, *(counts.get(name, 0) for name in BIN_COLUMNS)) for (day, bin), counts in bins.items()]
    inode = create_for_owner(path)
    try:
        _add(path, rows, bin_rows)
    except Exception as error:  # a text that is no UTF-8, for one, is no sqlite3.Error
        if not is_damage(error, path):
            raise
        if inode == path.stat().st_ino:  # else another server has already replaced it
            os.replace(path, f"{path}{DAMAGED}")
        create_for_owner(path)
        _add(path, rows, bin_rows)
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


def bins_since(path: Path, since: date) -> dict[ConfidenceBin, BinCounts]:
    """Return the counts of the bins since a day; raises sqlite3.Error."""
    try:
        with closing(_connect(path)) as connection:
            if connection.execute(FIND_BINS).fetchone() is None:
                return {}
            rows: list[tuple[object, ...]] = connection.execute(SUM_BINS, [since.isoformat()]).fetchall()
        return dict(_bin(*row) for row in rows)
    except (ValueError, OverflowError) as error:  # of a damaged file
        raise sqlite3.DatabaseError(str(error)) from error


def _bin(language: object, percent: object, shown: object, kept: object) -> tuple[ConfidenceBin, BinCounts]:
    """Return the bin and the counts of a row; raises ValueError if one of its numbers cannot be."""
    if not (isinstance(percent, int) and percent in BIN_STARTS):
        raise ValueError("a bin of confidences that cannot be")
    if not (isinstance(shown, int) and isinstance(kept, int) and min(shown, kept) >= 0):
        raise ValueError("a count is not a number")
    # A suggestion that is kept past midnight may have been shown the day before `since`.
    return ConfidenceBin(str(language), percent), BinCounts(shown, min(kept, shown))


def _drained(queue: SimpleQueue[tuple[K, Mapping[C, int]]]) -> dict[K, Counter[C]]:
    """Take everything from a queue and return its sums."""
    counted = defaultdict[K, Counter[C]](Counter)
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


def _add(path: Path, rows: Iterable[Row], bin_rows: Iterable[Row]) -> None:
    with closing(_connect(path)) as connection, connection:
        connection.execute(CREATE_TABLE)
        connection.executemany(ADD_COUNTS, rows)
        connection.execute(CREATE_BINS)
        connection.executemany(ADD_BINS, bin_rows)


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; a writer waits for other writers before it reads."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(where, timeout=LOCK_TIMEOUT, isolation_level="IMMEDIATE", uri=True)
