"""Where suggestions are given: what settings say of documents, their languages and their workspaces.

Judged in this order, what no setting lifts before what is set, the wider before the narrower: everything off, a file
of secrets, the workspace, the language, the file, its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from efim_ls.access.patterns import meaning, spellings
from efim_ls.access.reasons import Refusal, refusal
from efim_ls.access.secrets import is_secret_data, looks_secret
from efim_ls.settings import Settings
from efim_ls.uris import file_path

Paths = frozenset[str]


@dataclass(frozen=True)
class Verdict:
    """What the rules say of a document whatever its text is; `secret` is one that others are not completed from."""

    refusal: Refusal | None
    secret: bool


class Rules:
    """The rules of some settings, for a client that works in some folders: changed ones are another object.

    What they say of a document is kept until it is forgotten: following links at each key would cost more than all
    the rest.
    """

    def __init__(self, settings: Settings, folders: Iterable[str] = ()) -> None:
        """Folders are the URIs of a client's workspaces: documents that lie in none of them belong to all."""
        self._settings = settings
        self._folders = [_paths(uri) for uri in folders]
        self._languages = {language.lower() for language in settings.disabled_languages}
        self._verdicts: dict[tuple[str, str], Verdict] = {}

    def refusal(self, uri: str, language: str, size: int) -> Refusal | None:
        """Why a document with so many characters gets no suggestions, if it gets none."""
        if not self._settings.enabled:
            return refusal("disabled")
        return self._verdict(uri, language).refusal or self._too_large(size)

    def may_be_read(self, uri: str, language: str, size: int) -> bool:
        """Whether other documents may be completed from this one."""
        return self.refusal(uri, language, size) is None and not self._verdict(uri, language).secret

    def forget(self, uri: str, language: str) -> None:
        """Judge a document anew should it come back: links may lead elsewhere then."""
        self._verdicts.pop((uri, language), None)

    def _verdict(self, uri: str, language: str) -> Verdict:
        key = uri, language
        if key not in self._verdicts:
            paths = _paths(uri)
            self._verdicts[key] = Verdict(self._off(paths, language), looks_secret(paths))
        return self._verdicts[key]

    def _off(self, paths: Paths, language: str) -> Refusal | None:
        settings = self._settings
        if is_secret_data(paths):
            return refusal("secret file")
        if pattern := meaning(self._places(paths), settings.disabled_workspaces):
            return refusal("workspace off", pattern=pattern)
        if language.lower() in self._languages:
            return refusal("language off", language=language)
        if pattern := meaning(paths, settings.disabled_files):
            return refusal("file off", pattern=pattern)
        return None

    def _places(self, paths: Paths) -> Paths:
        """Where a document is: its paths and, where they lie in no folder of the client, all of those."""
        if any(_lies_in(path, folder) for path in paths for folder in frozenset[str]().union(*self._folders)):
            return paths
        return paths.union(*self._folders)

    def _too_large(self, size: int) -> Refusal | None:
        most = self._settings.max_file_kib * 1024
        return refusal("file too large", size=size, most=most) if size > most else None


def _paths(uri: str) -> Paths:
    """The paths by which a document or folder is judged; none where its URI has no path."""
    path = file_path(uri) or _path_elsewhere(uri)
    return spellings(path) if path else Paths()


def _path_elsewhere(uri: str) -> str | None:
    """The path of what is no file but may lie beside files: a notebook's cell, a file that is not saved yet."""
    _, _, rest = uri.partition(":")
    there = rest.partition("#")[0].partition("?")[0]
    path = there[there.find("/", 2) :] if there.startswith("//") else there
    return unquote(path) if path.startswith("/") else None


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
