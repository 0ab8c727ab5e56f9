"""What the last commit of a repository has of a file: the only text whose keys and values may reach other people.

It is read from git's own files, by dulwich: no program is run, so nothing that a repository's settings name is.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import OrderedDict
from collections.abc import Iterable

from dulwich.errors import FileFormatException, NotGitRepository, ObjectFormatException
from dulwich.object_store import tree_lookup_path
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.repo import Repo

from efim_ls.access.ignored import is_text_ignored
from efim_ls.access.secret_text import without_secrets
from efim_ls.access.secrets import may_reach_disk
from efim_ls.languages.table import language_of
from efim_ls.paths import file_path, real_path
from efim_ls.settings import MOST_CHARACTERS

KEPT = 64  # texts, of the files asked for last
UNREADABLE = (FileFormatException, ObjectFormatException, KeyError, OSError, ValueError, zlib.error)

logger = logging.getLogger(__name__)


class CommittedTexts:
    """The texts of files as their repositories' last commits have them. For one thread."""

    def __init__(self, private: Iterable[str]) -> None:
        """Take the patterns of files that never leave this machine, committed or not."""
        self._private = tuple(private)
        self._repositories: dict[str, Repo] = {}  # by each folder that was asked about
        self._texts: OrderedDict[str, tuple[ObjectID, str | None]] = OrderedDict()

    def text(self, uri: str) -> str | None:
        """Return a file's text, with line feeds alone; None if no commit has it, or it may not be shared.

        Private files, those whose names suggest secrets, and what git ignores may not.
        """
        path = real_path(uri)
        if not path or not may_reach_disk(uri, self._private):
            return None
        try:
            if is_text_ignored(file_path(uri) or path):
                return None
            repository = self._repository(os.path.dirname(path))
            return self._at_head(repository, path) if repository else None
        except UNREADABLE as error:
            logger.info("a file's commit cannot be read, so nothing of it is shared: %s", type(error).__name__)
            return None

    def close(self) -> None:
        """Close the repositories' files."""
        for repository in self._repositories.values():
            repository.close()

    def _repository(self, folder: str) -> Repo | None:
        if folder not in self._repositories:
            try:
                found = Repo.discover(folder)
            except NotGitRepository:
                return None
            known = (each for each in self._repositories.values() if each.path == found.path)
            self._repositories[folder] = next(known, found)
        return self._repositories[folder]

    def _at_head(self, repository: Repo, path: str) -> str | None:
        head = repository.head()
        before, text = self._texts.pop(path, (None, None))
        if before != head:
            text = _read(repository, head, path)
        self._texts[path] = head, text
        if len(self._texts) > KEPT:
            self._texts.popitem(last=False)
        return text


def _read(repository: Repo, head: ObjectID, path: str) -> str | None:
    commit, name = repository[head], os.path.relpath(path, os.path.realpath(repository.path)).replace(os.sep, "/")
    if not isinstance(commit, Commit):
        return None
    try:
        _, found = tree_lookup_path(repository.__getitem__, commit.tree, os.fsencode(name))
    except KeyError:  # no commit has it yet
        return None
    blob = repository[found]
    if not isinstance(blob, Blob) or blob.raw_length() > MOST_CHARACTERS:
        return None
    return without_secrets(blob.data.decode("utf-8").replace("\r\n", "\n"), language_of(path))
