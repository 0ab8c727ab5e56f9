"""The tables of an index, in a file or in memory. Every error of SQLite is the caller's.

Tables of outlines and words are only in an index that is searched for text to show: nothing else reads them.

SQLite does not check what its pages hold, so rows whose damage could change a suggestion carry a checksum: the state
of each file, and the token ids of each text.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from efim_ls.workspace.database.queries import PASSAGE_BITS, IndexQueries
from efim_ls.workspace.files.content import PASSAGE_LINES, Content, IndexedFile, Kept, SearchText
from efim_ls.workspace.files.discovery import SourceFile
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

APPLICATION_ID = 0x6566494E  # "efIN"
SCHEMA_VERSION = 3
MOST_TOKENIZERS = 2  # sets of them, whose ids are kept; other sets' ids are removed, the least recently used first
MOST_GONE = 10_000  # files that may still turn out to be renamed; a switch of branches renames that many
SCHEMA = f"""
CREATE TABLE about (origin TEXT NOT NULL, unwiped INTEGER NOT NULL);
INSERT INTO about VALUES ('', 0);
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, content INTEGER NOT NULL,
    gone INTEGER NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX files_of_content ON files (content);
CREATE INDEX files_that_are_gone ON files (gone) WHERE gone;
CREATE TABLE skipped (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE contents (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, language TEXT NOT NULL,
    UNIQUE (digest, language));
CREATE TABLE tokenizers (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, used INTEGER NOT NULL);
CREATE TABLE tokens (content INTEGER NOT NULL, tokenizer INTEGER NOT NULL, ids BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (content, tokenizer));
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
SEARCH_SCHEMA = """
CREATE TABLE outlines (content INTEGER PRIMARY KEY, imports TEXT NOT NULL, lines INTEGER NOT NULL);
CREATE TABLE definitions (content INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    line INTEGER NOT NULL, signature TEXT NOT NULL, PRIMARY KEY (content, number)) WITHOUT ROWID;
CREATE INDEX definitions_by_name ON definitions (name);
CREATE VIRTUAL TABLE passages USING fts5 (words, tokenize = "unicode61 remove_diacritics 0 tokenchars '_^'");
"""


HELD_WITH: dict[Kept, str] = {
    "ids": "",
    "outlines": " AND id IN (SELECT content FROM outlines)",
    "passages": " AND id IN (SELECT content FROM outlines WHERE lines > 0)",
}
CONTENT_WITH_IDS = """SELECT id, length(ids) FROM contents JOIN tokens ON content = id
    WHERE digest = ? AND language = ? AND tokenizer = ?"""


class Damage(ValueError):
    """The content of the file is not what an index wrote."""


class Entry(NamedTuple):
    """What the index knows of a file: its state when it was read, and the digest of its text."""

    size: int
    mtime_ns: int
    digest: bytes
    language: str


class IndexTables(IndexQueries):
    """One connection and the queries that run on it; `put` and `remove` are one transaction each."""

    def __init__(
        self, connection: sqlite3.Connection, tokenizers: LanguageTokenizers | None, keeps: Kept = "ids"
    ) -> None:
        """Take a connection in autocommit mode and the tokenizers whose ids are kept; to remove, none are needed.

        Content counts as held only with all that it `keeps`.
        """
        super().__init__(connection)
        self._width = np.dtype("<u2" if tokenizers and tokenizers.is_narrow else "<i4")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if (version, connection.execute("PRAGMA application_id").fetchone()[0]) != (SCHEMA_VERSION, APPLICATION_ID):
            raise Damage("it is no index of this version")
        self._tokenizer = self._row_of_tokenizers(tokenizers.digest) if tokenizers else 0
        if keeps != "ids":
            with self._transaction():  # another server may create them at the same time
                if not self.has_search:
                    _run(connection, SEARCH_SCHEMA)
        self._held = CONTENT_WITH_IDS + HELD_WITH[keeps]

    @property
    def has_search(self) -> bool:
        """Whether there are tables of outlines and words."""
        found = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'outlines'")
        return found.fetchone() is not None

    @property
    def kept(self) -> Kept:
        """What there is of some texts at least."""
        if not self.has_search:
            return "ids"
        found = self.connection.execute("SELECT 1 FROM outlines WHERE lines > 0 LIMIT 1").fetchone()
        return "passages" if found else "outlines"

    def keep_origin(self, origin: str) -> None:
        """Keep what the index says about itself."""
        if self.connection.execute("SELECT origin FROM about").fetchone() != (origin,):
            self.connection.execute("UPDATE about SET origin = ?", (origin,))

    def entries(self, after: str = "", most: int = -1) -> dict[str, Entry]:
        """Return the data of each file, or of the first `most` after a path unless that is negative."""
        rows = self.connection.execute(
            "SELECT path, size, mtime_ns, checksum, digest, language FROM files JOIN contents ON id = content "
            "WHERE path > ? AND NOT gone ORDER BY path LIMIT ?",
            (after, most),
        )
        found = dict[str, Entry]()
        for path, size, mtime_ns, checksum, digest, language in rows:
            found[path] = entry = Entry(size, mtime_ns, digest, language)
            if _checksum(path, entry, 0) != checksum:
                raise Damage("a file's entry does not match its checksum")
        return found

    def skipped(self) -> dict[str, tuple[int, int]]:
        """Return size and time of change (ns) of each file that was no source when it was read."""
        rows = self.connection.execute("SELECT path, size, mtime_ns FROM skipped")
        return {path: (size, mtime_ns) for path, size, mtime_ns in rows}

    def token_count(self, digest: bytes, language: str) -> int | None:
        """Return the number of tokens of a text, None if its content is not there."""
        row = self.connection.execute(self._held, (digest, language, self._tokenizer)).fetchone()
        return row and row[1] // self._width.itemsize

    def has_file(self, path: str) -> bool:
        """Return whether anything is kept of a file, even if it is gone."""
        return self.connection.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone() is not None

    def holds(self, digest: bytes, language: str) -> bool:
        """Return whether the content of a text is there, with token ids."""
        return self._content_with_ids(digest, language) is not None

    def put(self, batch: Iterable[IndexedFile]) -> None:
        """Add files, each in place of the old data of its path."""
        with self._transaction():
            for each in batch:
                self._put(each)

    def skip(self, files: Iterable[SourceFile]) -> None:
        """Keep that files are no sources as they are now."""
        with self._transaction():
            rows = [(file.path, file.size, file.mtime_ns) for file in files]
            self.connection.executemany("REPLACE INTO skipped VALUES (?, ?, ?)", rows)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, but keep the data derived from their text: they may only have been renamed."""
        with self._transaction():
            for path in paths:
                self._mark_gone(path)
                self._take_back(path)
            if self.connection.execute("SELECT count(*) FROM files WHERE gone").fetchone()[0] > MOST_GONE:
                self._remove_gone()

    def remove_for_good(self, paths: Iterable[str]) -> bool:
        """Remove files with all data derived from their text, and all data of files that are gone.

        Return whether `wipe` is needed: removed data is still in the file.
        """
        with self._transaction():
            for path in paths:
                self._take_back(path)
                row = self.connection.execute("SELECT content FROM files WHERE path = ?", (path,)).fetchone()
                if row:
                    self.connection.execute("DELETE FROM files WHERE path = ?", (path,))
                    self._remove_content_unless_used(row[0])
            self._remove_gone()
        return self.connection.execute("SELECT unwiped FROM about").fetchone() == (1,)

    def wipe(self) -> None:
        """Overwrite removed data: in the full-text index, where it is only marked, and in the log.

        Raises sqlite3.OperationalError if another process reads too long.
        """
        if self.has_search:
            self.connection.execute("INSERT INTO passages (passages) VALUES ('optimize')")
        self._empty_log()
        self.connection.execute("UPDATE about SET unwiped = 0")

    def _empty_log(self) -> None:
        if self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise sqlite3.OperationalError("another process is reading")

    def ids(self, digest: bytes) -> Ids | None:
        """Return the token ids of a text, None if they are not there."""
        row = self.connection.execute(
            "SELECT ids, checksum FROM tokens JOIN contents ON id = content "
            "WHERE digest = ? AND tokenizer = ? LIMIT 1",
            (digest, self._tokenizer),
        ).fetchone()
        if row is None:
            return None
        return np.frombuffer(_checked(digest, *row), self._width).astype(np.int32)

    def check_ids(self) -> None:
        """Raise Damage if token ids of any tokenizer do not match their checksum."""
        for row in self.connection.execute("SELECT digest, ids, checksum FROM tokens JOIN contents ON id = content"):
            _checked(*row)

    def _put(self, each: IndexedFile) -> None:
        path, size, mtime_ns, language = each.file
        self._take_back(path)
        content = self._content_with_ids(each.digest, language)
        if content is None:
            if each.content is None:
                return
            content = self._add_content(each.digest, language, each.content)
        before = self.connection.execute("SELECT content FROM files WHERE path = ?", (path,)).fetchone()
        checksum = _checksum(path, Entry(size, mtime_ns, each.digest, language), 0)
        row = (path, size, mtime_ns, content, 0, checksum)
        self.connection.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
        if before and before[0] != content:
            self._remove_content_unless_used(before[0])

    def _content_with_ids(self, digest: bytes, language: str) -> int | None:
        row = self.connection.execute(self._held, (digest, language, self._tokenizer)).fetchone()
        return row and row[0]

    def _add_content(self, digest: bytes, language: str, content: Content) -> int:
        """Add the data derived from a text, unless it is there; return its number."""
        key = (digest, language)
        self.connection.execute("INSERT OR IGNORE INTO contents (digest, language) VALUES (?, ?)", key)
        (number,) = self.connection.execute(
            "SELECT id FROM contents WHERE digest = ? AND language = ?", key
        ).fetchone()
        if content.search:
            self._add_search(number, content.search)
        ids = content.ids.astype(self._width).tobytes()
        tokens = (number, self._tokenizer, ids, _checksum_of_ids(digest, ids))
        self.connection.execute("REPLACE INTO tokens VALUES (?, ?, ?, ?)", tokens)
        return number

    def _add_search(self, number: int, search: SearchText) -> None:
        if before := self.connection.execute("SELECT lines FROM outlines WHERE content = ?", (number,)).fetchone():
            if before[0] >= search.lines:
                return  # of another tokenizer
            self._remove_search(number)
        definitions, imports = search.outline
        row = (number, json.dumps(imports, separators=(",", ":")), search.lines)
        self.connection.execute("INSERT INTO outlines VALUES (?, ?, ?)", row)
        self.connection.executemany(
            "INSERT INTO definitions VALUES (?, ?, ?, ?, ?, ?)",
            [(number, n, *each) for n, each in enumerate(definitions)],
        )
        rows = [(number << PASSAGE_BITS | n, words) for n, words in enumerate(search.passages)]
        self.connection.executemany("INSERT INTO passages (rowid, words) VALUES (?, ?)", rows)

    def _take_back(self, path: str) -> None:
        """Forget that a file was no source."""
        if self.connection.execute("DELETE FROM skipped WHERE path = ?", (path,)).rowcount:
            self.connection.execute("UPDATE about SET unwiped = 1")

    def _mark_gone(self, path: str) -> None:
        row = self.connection.execute(
            "SELECT size, mtime_ns, digest, language FROM files JOIN contents ON id = content WHERE path = ?", (path,)
        ).fetchone()
        if row:
            checksum = _checksum(path, Entry(*row), 1)
            self.connection.execute("UPDATE files SET gone = 1, checksum = ? WHERE path = ?", (checksum, path))

    def _remove_gone(self) -> None:
        gone = self.connection.execute("SELECT path, content FROM files WHERE gone").fetchall()
        self.connection.execute("DELETE FROM files WHERE gone")
        for _, content in gone:
            self._remove_content_unless_used(content)

    def _remove_content_unless_used(self, content: int) -> None:
        if self.connection.execute("SELECT 1 FROM files WHERE content = ?", (content,)).fetchone():
            return
        if self.has_search:
            self._remove_search(content)
        self.connection.execute("UPDATE about SET unwiped = 1")
        self.connection.execute("DELETE FROM tokens WHERE content = ?", (content,))
        self.connection.execute("DELETE FROM contents WHERE id = ?", (content,))

    def _remove_search(self, content: int) -> None:
        row = self.connection.execute("SELECT lines FROM outlines WHERE content = ?", (content,)).fetchone()
        for n in range(-(-row[0] // PASSAGE_LINES) if row else 0):
            self.connection.execute("DELETE FROM passages WHERE rowid = ?", (content << PASSAGE_BITS | n,))
        for table in ("outlines", "definitions"):
            self.connection.execute(f"DELETE FROM {table} WHERE content = ?", (content,))

    def _row_of_tokenizers(self, digest: bytes) -> int:
        """Return the number of these tokenizers; the ids of those least recently used may have to go."""
        with self._transaction():
            self.connection.execute(
                "INSERT INTO tokenizers (digest, used) VALUES (?, unixepoch()) "
                "ON CONFLICT DO UPDATE SET used = unixepoch()",
                (digest,),
            )
            order = "SELECT id FROM tokenizers ORDER BY digest = ? DESC, used DESC"
            own, *others = [number for (number,) in self.connection.execute(order, (digest,))]
            for number in others[MOST_TOKENIZERS - 1 :]:
                self.connection.execute("DELETE FROM tokens WHERE tokenizer = ?", (number,))
                self.connection.execute("DELETE FROM tokenizers WHERE id = ?", (number,))
        return own

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables if the database is empty, whole or not at all."""
    connection.execute("BEGIN IMMEDIATE")  # another server may create them at the same time
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        _run(connection, SCHEMA)
    connection.execute("COMMIT")


def _run(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements one by one: `executescript` would commit first."""
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _checksum(path: str, entry: Entry, gone: int) -> bytes:
    return xxhash.xxh3_64_digest(repr((path, tuple(entry), gone)).encode("utf-8", "surrogatepass"))


def _checked(digest: bytes, ids: object, checksum: bytes) -> bytes:
    """Return the token ids of a text as they are kept; raises Damage."""
    if not isinstance(ids, bytes) or _checksum_of_ids(digest, ids) != checksum:
        raise Damage("token ids do not match their checksum")
    return ids


def _checksum_of_ids(digest: bytes, ids: bytes) -> bytes:
    return xxhash.xxh3_64_digest(digest + ids)


def find_damage(path: Path) -> str:
    """Return the damage of an index's file, empty if there is none; the file keeps its content.

    A server may be using it. Raises sqlite3.OperationalError if another process writes too long.
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
