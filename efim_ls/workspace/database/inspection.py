"""Looks for damage in the file of an index, whether or not a server is using it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from efim_ls.workspace.database.tables import IndexTables


def find_damage(path: Path) -> str:
    """Return the damage of an index's file, empty if there is none; the file keeps its content.

    Raises sqlite3.OperationalError if another process writes too long.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", isolation_level=None, uri=True)
    with closing(connection):
        try:
            tables = IndexTables(connection, None)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                return found
            if tables.has_search:  # SQLite checks the full-text index by a statement that writes
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO passages (passages) VALUES ('integrity-check')")
                connection.execute("ROLLBACK")
            tables.entries()
            tables.check_ids()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise
            return str(error)
        except (sqlite3.DatabaseError, ValueError) as error:
            return str(error)
    return ""
