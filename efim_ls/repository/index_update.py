"""Brings an index up to date with the files of its workspace, file by file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from efim_ls.access.rules import Rules
from efim_ls.access.secrets import may_reach_disk
from efim_ls.repository.content import IndexedFile, content_of, digest_of
from efim_ls.repository.discovery import SourceFile, read_source, source_files
from efim_ls.repository.index_file import IndexFile
from model_runtime.prompt.tokenizer import Tokenizer

BATCH_TOKENS = 30_000  # written in one transaction, in about 10 ms


class IndexProgress(NamedTuple):
    """How many files have been looked at, of how many."""

    done: int
    files: int


class IndexUpdate:
    """One pass over a workspace. `steps` does the work; it may be left at any step, and the next update goes on."""

    def __init__(
        self, index: IndexFile, folders: Iterable[Path], rules: Rules, private: Collection[str], tokenizer: Tokenizer
    ) -> None:
        """Take the index, the folders, and what decides about their files; `private` are the `private_files`."""
        self._index, self._folders, self._rules = index, folders, rules
        self._private, self._tokenizer = private, tokenizer
        self._batch, self._tokens = list[IndexedFile](), 0

    def steps(self) -> Iterator[IndexProgress]:
        """Find the files, remove those that are gone or forbidden, then read those that are new or changed."""
        known = self._index.entries()
        files = {file.path: file for folder in self._folders for file in source_files(folder, self._rules)}
        missing = known.keys() - files.keys()
        excluded = {path for path in missing if os.path.lexists(path)}
        private = {path for path in known.keys() & files.keys() if is_private_file(path, self._private)}
        self._index.remove(sorted(excluded | private), for_good=True)
        self._index.remove(sorted(missing - excluded), for_good=False)
        for done, file in enumerate(files.values()):
            yield IndexProgress(done, len(files))
            before = known.get(file.path)
            if before is None or file.path in private or (before.size, before.mtime_ns) != (file.size, file.mtime_ns):
                self._read(file, before is not None)
        self._write()
        self._index.remove_gone()
        yield IndexProgress(len(files), len(files))

    def _read(self, file: SourceFile, known: bool) -> None:
        found = indexed_file(file, self._index, self._tokenizer, self._private)
        if found is None:
            if known:
                self._index.remove([file.path], for_good=False)
            return
        self._batch.append(found)
        self._tokens += len(found.content.ids) if found.content else 0
        if self._tokens > BATCH_TOKENS:
            self._write()

    def _write(self) -> None:
        self._index.put(self._batch)
        self._batch, self._tokens = [], 0


def is_private_file(path: str, private: Collection[str]) -> bool:
    """Return whether nothing of a file may reach the disk."""
    return not may_reach_disk(Path(path).as_uri(), private)


def indexed_file(
    file: SourceFile, index: IndexFile, tokenizer: Tokenizer, private: Collection[str]
) -> IndexedFile | None:
    """Read a file for the index, without its content if the index has that; None if it cannot be used."""
    text = read_source(file)
    if text is None:
        return None
    digest, is_private = digest_of(text), is_private_file(file.path, private)
    if not is_private and index.holds(digest, file.language):
        return IndexedFile(file, digest, None)
    content = content_of(text, file.language, tokenizer.encode_file(text))
    return IndexedFile(file, digest, content, is_private)
