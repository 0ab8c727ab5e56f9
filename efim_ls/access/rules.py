"""Where suggestions are allowed: what settings say of documents, their languages and their workspaces.

Checked in this order: everything off; a file of secrets, which no setting overrides; then from broad to narrow, the
workspace, the language, the file, its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from efim_ls.access.patterns import first_match, path_variants
from efim_ls.access.reasons import Refusal, refusal
from efim_ls.access.secrets import is_secret_data, looks_secret
from efim_ls.paths import file_path
from efim_ls.settings import Settings

Paths = frozenset[str]


@dataclass(frozen=True)
class Verdict:
    """What rules say of a document: why it is off whatever its text is, and the most characters it may have.

    Other documents are never completed from one that is `secret`.
    """

    off: Refusal | None
    secret: bool
    most_characters: int

    def refusal(self, size: int) -> Refusal | None:
        """Return why the document gets no suggestions while it has `size` characters, None if it gets them."""
        if self.off is None and size > self.most_characters:
            return refusal("file too large", size=size, most=self.most_characters)
        return self.off

    def may_be_read(self, size: int) -> bool:
        """Return whether other documents may be completed from this one."""
        return not self.secret and self.refusal(size) is None


class Rules:
    """The rules of a client's settings and workspace folders. Immutable: changed rules are another object."""

    def __init__(self, settings: Settings, folders: Iterable[str] = ()) -> None:
        """Take the settings and the URIs of the workspace folders; documents outside all of them belong to each."""
        self._settings = settings
        self._folders = [_paths(uri) for uri in folders]
        self._languages = {language.lower() for language in settings.disabled_languages}

    def verdict(self, uri: str, language: str) -> Verdict:
        """Judge a document by its name and language; follows links, which is too slow to do at each key."""
        paths = _paths(uri)
        return Verdict(self._off(paths, language), looks_secret(paths), self._settings.max_file_kib * 1024)

    def _off(self, paths: Paths, language: str) -> Refusal | None:
        settings = self._settings
        if not settings.enabled:
            return refusal("disabled")
        if is_secret_data(paths):
            return refusal("secret file")
        if pattern := first_match(self._places(paths), settings.disabled_workspaces):
            return refusal("workspace off", pattern=pattern)
        if language.lower() in self._languages:
            return refusal("language off", language=language)
        if pattern := first_match(paths, settings.disabled_files):
            return refusal("file off", pattern=pattern)
        return None

    def _places(self, paths: Paths) -> Paths:
        """Return a document's paths and, where they lie in none of the client's folders, those folders."""
        if any(_lies_in(path, folder) for path in paths for folder in frozenset[str]().union(*self._folders)):
            return paths
        return paths.union(*self._folders)


def _paths(uri: str) -> Paths:
    """Return the paths by which a document or folder is judged; none where its URI has no path."""
    path = file_path(uri) or _path_elsewhere(uri)
    return path_variants(path) if path else Paths()


def _path_elsewhere(uri: str) -> str | None:
    """Return the path of what is not a file but may lie beside files: a notebook's cell, an unsaved file."""
    _, _, rest = uri.partition(":")
    there = rest.partition("#")[0].partition("?")[0]
    path = there[there.find("/", 2) :] if there.startswith("//") else there
    return unquote(path) if path.startswith("/") else None


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
