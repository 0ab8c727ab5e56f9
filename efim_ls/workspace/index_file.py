"""The index of one workspace: a SQLite file in the cache folder, and tables in memory for what must not be there.

Nothing that a disk does is raised to the caller. What cannot be written is kept in memory; a file that is damaged or
not an index is replaced by an empty one, which `generation` counts.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from efim_ls.sqlite_files import create_for_owner, is_damage
from efim_ls.text.outline import Outline
from efim_ls.workspace.database.origin import IndexOrigin, remove_index
from efim_ls.workspace.database.queries import FoundDefinition, FoundImport, IndexQueries, Passage
from efim_ls.workspace.database.tables import Entry, IndexTables, create_tables
from efim_ls.workspace.files.content import IndexedFile, Kept
from efim_ls.workspace.files.discovery import SourceFile
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

LOCK_TIMEOUT = 20.0  # seconds to wait while another server writes
LOCK_PAUSE = 0.01  # seconds between attempts where SQLite itself does not wait
RETRY_AFTER = 60.0  # seconds from a failure of the disk to the next attempt
REMEDY = "so the server works on with an index in memory: check the cache folder, or set 'cache_folder'"
PRAGMAS = (
    "journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON", "temp_store = MEMORY",
    "cache_size = -2048", "cell_size_check = ON", "mmap_size = 0",
)  # fmt: skip

T = TypeVar("T")


class IndexFile:
    """An index, changed by one thread; methods that only read outlines and passages may be called on any.

    `keeps` says which data of texts it holds: without outlines or passages, nothing is found in them.
    `generation` grows when the index starts empty again, so that all files must be put again.
    """

    def __init__(
        self,
        path: Path | None,
        origin: IndexOrigin,
        tokenizers: LanguageTokenizers,
        report: Callable[[str], None],
        keeps: Kept = "ids",
    ) -> None:
        """Open the file, or keep all in memory without a path, with the ids of tokenizers; report each failure once.

        The file keeps the `origin` for `efim-ls index` and `efim-ls cache`.
        """
        self.generation = 0
        self.keeps: Kept = keeps
        self._path, self._origin, self._tokenizers = path, origin.to_json(), tokenizers
        self._report, self._reported = report, set[str]()
        self._reading = threading.Lock()
        self._kept: _OpenFile | None = None
        self._memory: IndexTables | None = None
        self._retry_at, self._damage = 0.0, ""
        self._write(lambda _: None)

    def close(self) -> None:
        """Close the file; the index is empty from then on."""
        with self._reading:
            self._close_file()
            if self._memory:
                self._memory.connection.close()
            self._path = self._memory = None

    def entries(self, after: str = "", most: int = -1) -> Mapping[str, Entry]:
        """Return the data of each file by its path.

        A `most` that is not negative limits that to the first `most` files whose paths sort after `after`.
        """
        found = self._read(lambda tables: tables.entries(after, most)) or {}
        found |= self._memory.entries(after, most) if self._memory else {}
        return found if most < 0 else dict(sorted(found.items())[:most])

    def skipped(self) -> Mapping[str, tuple[int, int]]:
        """Return size and time of change (ns) of each file that was no source when it was read, by its path."""
        return self._read(lambda tables: tables.skipped()) or {}

    def skip(self, files: Sequence[SourceFile]) -> None:
        """Remember on disk that files are no sources as they are now."""
        self._write(lambda tables: tables.skip(files))

    def token_count(self, digest: bytes, language: str) -> int | None:
        """Return the number of tokens of a text, None if its content is not there."""
        found = self._read(lambda tables: tables.token_count(digest, language))
        return self._memory.token_count(digest, language) if found is None and self._memory else found

    def holds(self, digest: bytes, language: str) -> bool:
        """Return whether the content of a text is there, so that a file with it needs none."""
        if self._path is None:
            return self._memory is not None and self._memory.holds(digest, language)
        return bool(self._write(lambda tables: tables.holds(digest, language)))

    def drop_excess(self) -> None:
        """Begin with an empty file if it has more of the texts than is kept now, so that the rest leaves the disk."""
        kept = self._read(lambda tables: tables.kept)
        if kept == "passages" != self.keeps or (kept == "outlines" and self.keeps == "ids"):
            self._start_over()

    def put(self, batch: Sequence[IndexedFile]) -> None:
        """Add files, or replace them, in one transaction."""
        private = [each for each in batch if each.private]
        public = [each for each in batch if not each.private]
        for each in private:
            if self._read(lambda tables, path=each.file.path: tables.has_file(path)) is not False:
                self.remove([each.file.path], for_good=True)
        if public and self._write(lambda tables: (tables.put(public), True)[1]):
            self._remove_from_memory([each.file.path for each in public])
        else:
            private = list(batch)
        if private:
            self._put_in_memory(private)

    def remove(self, paths: Iterable[str], for_good: bool) -> None:
        """Remove files. For good, no trace of their text is left in the file's bytes or its side files.

        Otherwise data derived from a text is kept for a while, in case the file was only renamed.
        """
        removed = list(paths)
        self._remove_from_memory(removed)
        if not for_good:
            self._write(lambda tables: tables.remove(removed))
        elif self._write(lambda tables: _remove_for_good(tables, removed)) is None:
            self._start_over()  # rather the whole index than a trace

    def ids(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, Ids]]:
        """Yield the token ids of those texts that the index has."""
        for digest in digests:
            found = self._read(lambda tables, digest=digest: tables.ids(digest))
            if found is None and self._memory:
                found = self._memory.ids(digest)
            if found is not None:
                yield digest, found

    def similar(self, words: Sequence[str], most: int) -> list[Passage]:
        """Return at most `most` passages with the rarest of these words, the most similar first."""
        found = self._ask(lambda queries: queries.similar(words, most))
        return [passage for each in found for passage in each][:most]

    def definitions(self, name: str) -> list[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        found = self._ask(lambda queries: queries.definitions(name))
        return sorted((each for some in found for each in some), key=lambda each: (each.path, each.definition.line))

    def names(self, after: str, most: int) -> dict[str, int]:
        """Return the first defined names after one, in order, each with the number of its definitions."""
        found = Counter[str]()
        for some in self._ask(lambda queries: queries.names(after, most)):
            found.update(some)
        return dict(sorted(found.items())[:most])

    def references(self, names: Sequence[str]) -> dict[str, int]:
        """Return in how many files each name stands."""
        found = Counter[str]()
        for some in self._ask(lambda queries: queries.references(names)):
            found.update(some)
        return dict(found)

    def outline(self, path: str) -> Outline | None:
        """Return the outline of a file, None if the index does not have it."""
        return next((found for found in self._ask(lambda queries: queries.outline(path)) if found is not None), None)

    def importing(self, word: str) -> list[FoundImport]:
        """Return the imports that have a word in them, sorted by path."""
        found = self._ask(lambda queries: queries.importing(word))
        return sorted((each for some in found for each in some), key=lambda each: each.path)

    def _read(self, question: Callable[[IndexTables], T]) -> T | None:
        """Ask the file, even if it cannot be written now; None if that fails."""
        if self._kept and monotonic() < self._retry_at:
            return self._attempt(lambda _: question(self._kept.tables) if self._kept else None)
        return self._write(question)

    def _write(self, deed: Callable[[IndexTables], T]) -> T | None:
        """Do something with the file; None if that fails, or has failed a short time ago."""
        if monotonic() < self._retry_at:
            return None
        return self._attempt(lambda path: deed(self._opened(path).tables))

    def _attempt(self, deed: Callable[[Path], T]) -> T | None:
        if self._path is None:
            return None
        try:
            if self._damage:
                damage, self._damage = self._damage, ""
                raise sqlite3.DatabaseError(damage)
            return deed(self._path)
        except Exception as error:  # a text that is no UTF-8, for one, is no sqlite3.Error
            if is_damage(error, self._path):
                self._tell("damage", f"was damaged ({error}), so it is rebuilt from the files")
                self._start_over()
            else:
                self._fail(error)
            return None

    def _ask(self, question: Callable[[IndexQueries], T]) -> list[T]:
        """Return the answers of the file and of the tables in memory."""
        answers = list[T]()
        with self._reading:
            if self._kept:
                try:
                    answers.append(question(self._kept.queries))
                except Exception as error:
                    if self._path and is_damage(error, self._path):
                        self._damage = str(error)  # the thread that changes the index replaces it
            if self._memory:
                answers.append(question(self._memory))
        return answers

    def _opened(self, path: Path) -> _OpenFile:
        """Return the file; opens it if another process has replaced or removed it."""
        if self._kept is None or not self._kept.is_at(path):
            with self._reading:
                self._close_file()
                self._kept = _OpenFile(path, self._origin, self._tokenizers, self.keeps)
        return self._kept

    def _start_over(self) -> None:
        """Replace the file by an empty one."""
        if self._path is None:
            return
        try:
            with self._reading:
                self._close_file()
                remove_index(self._path)
                self._retry_at = 0.0
                self._kept = _OpenFile(self._path, self._origin, self._tokenizers, self.keeps)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        self._tell("disk", f"cannot be kept on disk ({reason}), {REMEDY}")
        self._retry_at = monotonic() + RETRY_AFTER

    def _tell(self, kind: str, what: str) -> None:
        """Report what happened to the index, once for each kind."""
        if kind not in self._reported:
            self._reported.add(kind)
            self._report(f"the index of this workspace {what}")

    def _close_file(self) -> None:
        if self._kept:
            self._kept.close()
            self.generation += 1
        self._kept = None

    def _put_in_memory(self, batch: Sequence[IndexedFile]) -> None:
        with self._reading:
            if self._memory is None:
                self._memory = _tables(":memory:", self._tokenizers, self.keeps)
            self._memory.put(batch)

    def _remove_from_memory(self, paths: Sequence[str]) -> None:
        if self._memory:
            with self._reading:
                self._memory.remove_for_good(paths)


class _OpenFile:
    """The file on disk: a connection that changes it and a reader, which never waits for the other.

    The latter is made when it is first needed: most clients look nothing up, and each takes two open files.
    """

    def __init__(self, path: Path, origin: str, tokenizers: LanguageTokenizers, keeps: Kept) -> None:
        """Open the file, or create it with mode 0600, which SQLite's side files inherit."""
        self._inode = create_for_owner(path)
        self._where = f"{path.absolute().as_uri()}?mode=rw"
        self._queries: IndexQueries | None = None
        self.tables = _tables(self._where, tokenizers, keeps)
        try:
            self.tables.keep_origin(origin)
        except BaseException:
            self.tables.connection.close()
            raise

    @property
    def queries(self) -> IndexQueries:
        """What reads the file on any thread; raises sqlite3.Error or OSError."""
        if self._queries is None:
            self._queries = IndexQueries(_connect(self._where))
        return self._queries

    def is_at(self, path: Path) -> bool:
        """Return whether this file still stands at its path."""
        try:
            return os.stat(path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close its connections; what cannot be written to the file any more stays in its log."""
        for each in filter(None, (self._queries, self.tables)):
            with suppress(sqlite3.Error):
                each.connection.close()


def remove_file(path: Path, file: str) -> bool:
    """Remove a file from an index for good, and return whether it was there; raises ValueError or sqlite3.Error."""
    tables = _tables(f"{path.absolute().as_uri()}?mode=rw", None)
    with closing(tables.connection):
        found = tables.has_file(file)
        if tables.remove_for_good([file]):
            tables.wipe()
    return found


def _remove_for_good(tables: IndexTables, paths: Sequence[str]) -> bool:
    if tables.remove_for_good(paths):
        tables.wipe()
    return True


def _tables(where: str, tokenizers: LanguageTokenizers | None, keeps: Kept = "ids") -> IndexTables:
    connection = _connect(where)
    try:
        create_tables(connection)
        return IndexTables(connection, tokenizers, keeps)
    except BaseException:
        connection.close()
        raise


def _connect(where: str) -> sqlite3.Connection:
    connection = sqlite3.connect(where, LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True)
    try:
        for pragma in PRAGMAS:
            _set_pragma(connection, pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_pragma(connection: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma, waiting for other servers.

    SQLite's own timeout does not apply while another connection turns on the write-ahead log of a new file.
    """
    until = monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
        sleep(LOCK_PAUSE)
