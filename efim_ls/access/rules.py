"""Where suggestions are allowed, by the settings for languages, files and folders.

Checked in this order: everything off; secret files, which no setting can allow; then from broad to narrow, the
language, the file or a folder above it, and its size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from efim_ls.access.patterns import first_match, matched_form, path_variants
from efim_ls.access.reasons import Refusal, refusal
from efim_ls.access.secret_text import without_secrets
from efim_ls.access.secrets import is_secret_data, looks_secret
from efim_ls.languages.table import language_named
from efim_ls.paths import file_path
from efim_ls.settings import MOST_CHARACTERS, Settings

Paths = frozenset[str]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """The rules' verdict on a document: why it is off regardless of its text, and the most characters it may have.

    The text of a `secret` document is never used to complete other documents.
    """

    off: Refusal | None
    secret: bool
    most_characters: int

    def refusal(self, size: int) -> Refusal | None:
        """Return why a document of `size` characters gets no suggestions, None if it gets them."""
        if self.off is None and size > self.most_characters:
            return refusal("file too large", size=size, most=self.most_characters)
        return self.off

    def may_be_read(self, size: int) -> bool:
        """Return whether the text may be used to complete other documents."""
        return not self.secret and self.refusal(size) is None

    def text_to_read(self, text: str, language: str) -> str | None:
        """Return a text as it may be used to complete other documents, None if it may not."""
        return without_secrets(text, language) if self.may_be_read(len(text)) else None


class Rules:
    """The rules from a client's settings and workspace folders. Immutable: a change makes a new object."""

    def __init__(self, settings: Settings, folders: Iterable[str] = ()) -> None:
        """Take the settings and the URIs of the workspace folders; a document outside all of them belongs to each."""
        self._settings = settings
        self._folders = Paths(f"{path.rstrip('/')}/" for folder in folders for path in _paths(folder))
        self._languages = {language_named(each).lower() for each in settings.disabled_languages}

    def verdict(self, uri: str, language: str) -> Verdict:
        """Return the verdict by name and language; follows links, which is too slow to do for every key."""
        return self._judged(lambda: _paths(uri), lambda: _name(uri), language)

    def verdict_of_file(self, path: str, language: str) -> Verdict:
        """Return the verdict on a file by its real path, which holds no links to follow."""
        name = matched_form(path)
        return self._judged(lambda: Paths({name if name.startswith("/") else f"/{name}"}), Paths, language)

    def _judged(self, paths_of: Callable[[], Paths], name_of: Callable[[], Paths], language: str) -> Verdict:
        """Return the verdict by a document's paths or, on whether it is secret alone, by its name if it has none."""
        try:
            paths = paths_of()
            names = paths or name_of()
            return Verdict(self._off(paths, names, language), looks_secret(names), MOST_CHARACTERS)
        except Exception as error:  # a document that cannot be judged must not stop the others
            logger.error("a document could not be judged, so it is off", exc_info=error)
            return Verdict(refusal("error"), secret=True, most_characters=0)

    def _off(self, paths: Paths, names: Paths, language: str) -> Refusal | None:
        settings = self._settings
        if not settings.enabled:
            return refusal("disabled")
        if is_secret_data(names):
            return refusal("secret file")
        if language.lower() in self._languages:
            return refusal("language off", language=language)
        if pattern := first_match(self._places(paths), settings.disabled_files):
            return refusal("file off", pattern=pattern)
        return None

    def _places(self, paths: Paths) -> Paths:
        """Return a document's paths, and all workspace folders if it lies in none of them."""
        if any(f"{path}/".startswith(folder) for path in paths for folder in self._folders):
            return paths
        return paths | self._folders


def _paths(uri: str) -> Paths:
    """Return the paths that the rules are matched with; none if the URI has no path."""
    path = file_path(uri) or _path_of_other_scheme(uri)
    return path_variants(path) if path else Paths()


def _path_of_other_scheme(uri: str) -> str | None:
    """Return the path in a URI that is not a file's: of a notebook cell, or a file that is not saved yet."""
    path = _behind_scheme(uri)
    return unquote(path) if path.startswith("/") else None


def _name(uri: str) -> Paths:
    """Return what a URI without a path calls a document: a file that is not saved yet, a path of another system."""
    return Paths({f"/{matched_form(unquote(_behind_scheme(uri)))}"})


def _behind_scheme(uri: str) -> str:
    there = (uri.partition(":")[2] or uri).partition("#")[0].partition("?")[0]
    return there[there.find("/", 2) :] if there.startswith("//") else there
