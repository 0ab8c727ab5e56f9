"""Counts of requests, answers, costs and what users did with suggestions, and their file, without any text."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import date
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal, NamedTuple, cast, get_args

from efim_ls.paths import cache_folder
from efim_ls.request import Answer, Costs, Reason
from efim_ls.settings import Settings
from efim_ls.sqlite_files import create_for_owner, is_damage
from kv_store.warn_once import WarnOnce

Count = Literal[
    "requests", "recomputed", "reused", "offered", "shown", "accepted", "partially_accepted", "taken",
    "characters_accepted", "characters_kept",
    "edits_shown", "edits_accepted", "edits_kept",
]  # fmt: skip
STATISTICS = "statistics.sqlite3"  # next to the models' folders
DAMAGED = ".damaged"  # suffix of a damaged file, which is renamed
LOCK_TIMEOUT = 1.0  # seconds to wait while another server writes
COLUMNS: tuple[Count, ...] = get_args(Count)

WRITE_INTERVAL = 60.0  # seconds between writes to the file, at least
TIMED_ANSWERS = 1000  # answers that the percentiles of times cover

Key = tuple[str, str]  # a day and a language
Record = Callable[[str, Mapping[Count, int]], None]


def add_counts(path: Path, counted: Mapping[Key, Mapping[Count, int]]) -> str | None:
    """Add counts to the file, or to a new one if it is damaged; return what the damage was, None if there was none.

    Raises OSError, ValueError for a path that cannot be one, or sqlite3.Error; nothing was added then.
    """
    inode = create_for_owner(path)
    try:
        _add(path, counted)
    except Exception as error:  # a text that is no UTF-8, for one, is no sqlite3.Error
        if not is_damage(error, path):
            raise
        if inode == path.stat().st_ino:  # else another server has already replaced it
            os.replace(path, f"{path}{DAMAGED}")
        create_for_owner(path)
        _add(path, counted)
        return str(error)
    return None


def counts_since(path: Path, since: date) -> dict[str, dict[Count, int]]:
    """Return the counts since a day, by language; raises sqlite3.Error."""
    sums = ", ".join(f"SUM({name})" for name in COLUMNS)
    query = f"SELECT language, {sums} FROM days WHERE day >= ? GROUP BY language"
    try:
        with closing(_connect(path)) as connection:
            return {
                str(language): _numbers(found) for language, *found in connection.execute(query, [since.isoformat()])
            }
    except (ValueError, OverflowError) as error:  # of a damaged file
        raise sqlite3.DatabaseError(str(error)) from error


def _numbers(sums: Sequence[object]) -> dict[Count, int]:
    """Return the sums by name; raises ValueError if one is no number, which SQLite does not prevent."""
    if not all(isinstance(each, int) for each in sums):
        raise ValueError("a count is not a number")
    return dict(zip(COLUMNS, cast("Sequence[int]", sums), strict=True))


def _add(path: Path, counted: Mapping[Key, Mapping[Count, int]]) -> None:
    columns = ", ".join(f"{name} INTEGER NOT NULL" for name in COLUMNS)
    added = ", ".join(f"{name} = {name} + excluded.{name}" for name in COLUMNS)
    with closing(_connect(path)) as connection, connection:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS days (day TEXT, language TEXT, {columns}, PRIMARY KEY (day, language)) "
            "WITHOUT ROWID"
        )
        connection.executemany(
            f"INSERT INTO days VALUES (?, ?{', ?' * len(COLUMNS)}) ON CONFLICT DO UPDATE SET {added}",
            [(*key, *(counts.get(name, 0) for name in COLUMNS)) for key, counts in counted.items()],
        )


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; a writer waits for other writers before it reads."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(where, timeout=LOCK_TIMEOUT, isolation_level="IMMEDIATE", uri=True)


class _LastAnswer(NamedTuple):
    """The reported fields of the last answer: no text that the user may have written."""

    uri: str
    costs: Costs
    reason: Reason | None
    confidence: float | None


class Counters:
    """Counts since the server started.

    A suggestion counts once, even if its remainder is offered again after each key: as `offered`, as `shown` (if the
    editor reports that), and as `taken` if it was accepted, whole or in part. `characters_kept` of the
    `characters_accepted` were still in the document some time later. Next edits are counted apart, as `edits_shown`,
    `edits_accepted`, and `edits_kept` if nothing of an accepted one was taken back soon.
    """

    def __init__(self, record: Record = lambda language, counts: None) -> None:
        """Pass every count to `record` as well, with its language."""
        self.answered: Counter[str] = Counter()
        self._record = record
        self._counts: Counter[Count] = Counter()
        self._milliseconds: deque[float] = deque(maxlen=TIMED_ANSWERS)
        self._last: _LastAnswer | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Add counts of a document in a language."""
        self._counts.update(counts)
        self._record(language, counts)

    def count_answer(self, language: str, outcome: str) -> None:
        """Count an answer by its outcome: a suggestion, or the reason for none."""
        self.answered[outcome] += 1
        self.add(language, {"requests": 1})

    def count_refusal(self, uri: str, language: str, reason: Reason) -> None:
        """Count a request that was answered without the model."""
        self.count_answer(language, reason)
        self._last = _LastAnswer(uri, Costs(), reason, None)

    def count_costs(self, uri: str, language: str, answer: Answer) -> None:
        """Add the costs of an answer from the model."""
        self._last = _LastAnswer(uri, answer.costs, answer.reason, answer.confidence)
        self.add(language, {"recomputed": answer.costs.recomputed, "reused": answer.costs.reused})
        if answer.reason != "superseded":
            self._milliseconds.append(answer.costs.ms.total)

    @property
    def last(self) -> dict[str, object] | None:
        """A summary of the last answer, for people."""
        if (last := self._last) is None:
            return None
        costs = last.costs
        spent = {"reused": costs.reused, "recomputed": costs.recomputed, "ms": costs.ms.total}
        return {"uri": last.uri, "reason": last.reason, **spent}

    @property
    def typical_ms(self) -> float | None:
        """Milliseconds of a typical key: half of the last answers took no more; None before the first."""
        return _percentile(self._milliseconds, 50)

    @property
    def suggestions(self) -> dict[str, float | None]:
        """Counts and rates of shown, accepted and kept suggestions."""
        of = self._counts
        return {
            "shown": of["shown"],
            "accepted": of["accepted"],
            "partially_accepted": of["partially_accepted"],
            "acceptance_rate": ratio(of["taken"], of["shown"]),
            "kept_rate": ratio(of["characters_kept"], of["characters_accepted"]),
        }

    def report(self) -> dict[str, object]:
        """Return all counts as plain values."""
        of, last = self._counts, self._last
        return {
            "requests": self.answered.total(),
            "answered": dict(self.answered),
            "offered": of["offered"],
            **self.suggestions,
            "characters_accepted": of["characters_accepted"],
            "characters_kept": of["characters_kept"],
            "next_edits": {"shown": of["edits_shown"], "accepted": of["edits_accepted"], "kept": of["edits_kept"]},
            "tokens": {"recomputed": of["recomputed"], "reused": of["reused"]},
            "ms": {f"p{percent}": _percentile(self._milliseconds, percent) for percent in (50, 95)},
            "last": last and asdict(last.costs),
            "last_reason": last and last.reason,
            "last_confidence": last and last.confidence,
            "last_uri": last and last.uri,
        }


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
        storable = language.encode("utf-8", "replace").decode()  # JSON can contain half a surrogate pair
        self._items.put(((date.today().isoformat(), storable), counts))
        self._start_timer()

    def write(self) -> None:
        """Write the counts to the file now; counts that cannot be written are kept for the next attempt."""
        with self._writing:
            # before draining: a later item is drained too or starts a new timer
            timer, self._timer = self._timer, None
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
        except RuntimeError:  # the system has no thread left: the counts wait for a later one
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


def ratio(part: int, whole: int) -> float | None:
    """Return part / whole, None if the whole is 0."""
    return part / whole if whole else None


def _percentile(values: deque[float], percent: int) -> float | None:
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None


def _drained(queue: SimpleQueue[tuple[Key, Mapping[Count, int]]]) -> dict[Key, Counter[Count]]:
    """Take everything from a queue and return its sums."""
    counted = defaultdict[Key, Counter[Count]](Counter)
    try:
        while True:
            key, counts = queue.get_nowait()
            counted[key].update(counts)
    except Empty:
        return counted
