"""The file of usage statistics: daily counts per language, without any text."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Literal, cast, get_args

from efim_ls.sqlite_files import create_for_owner, is_damage

Count = Literal[
    "requests", "recomputed", "reused", "offered", "shown", "accepted", "partially_accepted", "taken",
    "characters_accepted", "characters_kept",
    "edits_shown", "edits_accepted", "edits_kept",
]  # fmt: skip
STATISTICS = "statistics.sqlite3"  # next to the models' folders
DAMAGED = ".damaged"  # suffix of a damaged file, which is renamed
LOCK_TIMEOUT = 1.0  # seconds to wait while another server writes
COLUMNS: tuple[Count, ...] = get_args(Count)

Key = tuple[str, str]  # a day and a language


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
