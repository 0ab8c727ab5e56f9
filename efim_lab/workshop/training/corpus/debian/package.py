"""Finds the sources in Debian's packages, of languages whose files lie in many places of a package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import unquote

from efim_lab.workshop.training.corpus.debian.archives import fetch_binaries, fetch_sources
from efim_lab.workshop.training.corpus.debian.notices import read_notice
from efim_lab.workshop.training.corpus.fetching import unpacked
from efim_lab.workshop.training.corpus.language import CorpusSource, Found, RefusedPackage, Splits
from efim_lab.workshop.training.corpus.licences import is_permissive
from efim_lab.workshop.training.corpus.own_code import sources_in

_LISTS = Path(__file__).with_name("lists")
_NOTICES = ("debian/copyright", "usr/share/doc/*/copyright")  # of sources, and of installed packages
_OTHERS = (
    r"(?i:(^|/)(\.[^/]*|_[^/]*|tests?|testing|test[-_]?(suites?|data|cases|src|utils|lib)|unit[-_]?tests?|specs?|features|"
    r"fixtures|mocks?|fuzz(ing|ers?)?|benchmarks?|vendor(ed)?|third[-_ ]?party|3rd[-_]?party|extern(als?)?|deps|"
    r"bundled|contrib|node_modules|generated|gen|gnulib|build|target|debian|autom4te\.cache|locales?|lang|"
    r"translations?|i18n|resources?/data|\w+[-_]tests?)/)"
)


def unwanted(names: str) -> re.Pattern[str]:
    """Return a pattern of paths of tests, generated files and copies: in such folders, or with such `names`."""
    return re.compile(f"{_OTHERS}|{names}")


class PackagedLanguage(NamedTuple):
    """A language whose corpus comes from the packages of a list of Debian's: the file in `lists` that has its name.

    `endings` are endings of its files, "" among them if some have none. `others` matches paths of files that nobody
    wrote or that test. `named` names a package by its folder's name, and `is_chosen` says, once a path fits, whether
    a file is in this language.
    """

    name: str
    title: str
    splits: Splits
    endings: tuple[str, ...]
    others: re.Pattern[str]
    are_sources: bool = False
    named: Callable[[str], str] = str
    is_chosen: Callable[[Path], bool] = Path.is_file

    @property
    def packages(self) -> Path:
        """The list of packages."""
        return _LISTS / f"{self.name}.txt"

    def fetch(self, out: Path) -> list[Path]:
        """Download the listed packages and check their digests; return their unpacked folders."""
        return (fetch_sources if self.are_sources else fetch_binaries)(out, self.packages)

    def fetched(self, folder: Path) -> list[Path]:
        """List the folders of the packages that `fetch` unpacked."""
        return unpacked(folder, _NOTICES[not self.are_sources])

    def found_in(self, folder: Path) -> list[Found]:
        """List the sources in a folder: a Debian package, or the user's own folders."""
        return sources_in(folder, self.splits, self.title, self._package, self.is_wanted)

    def is_wanted(self, name: str) -> bool:
        """Return whether a relative path belongs to code written by hand: no tests, generated files or copies."""
        return PurePath(name).suffix.lower() in self.endings and not self.others.search(name)

    def _package(self, folder: Path) -> Found | None:
        """Return a package as a source, as refused without a permissive licence, or None for any other folder."""
        notice = next((path for each in _NOTICES for path in folder.glob(each) if path.is_file()), None)
        if notice is None:
            return None
        package, _, version = folder.name.partition("_")
        name, version = self.named(package), unquote(version)
        stated = read_notice(notice.read_text("utf-8", errors="replace"))
        if not is_permissive(stated.licence):
            return RefusedPackage(name, version, stated.licence or "not stated")
        found = (path for path in folder.rglob("*") if not path.is_symlink())
        paths = {path.relative_to(folder).as_posix(): path for path in found}
        wanted = (name for name in sorted(paths) if self.is_wanted(name) and stated.permits(PurePath(name)))
        return CorpusSource(
            name, version, stated.licence, folder, tuple(each for each in wanted if self.is_chosen(paths[each]))
        )
