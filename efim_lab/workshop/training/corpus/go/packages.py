"""Fetches the listed packages of Debian with apt, and finds the sources in them; nothing of them is installed."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote

from efim_lab.workshop.training.corpus.debian.archives import fetch_binaries
from efim_lab.workshop.training.corpus.debian.notices import read_notice
from efim_lab.workshop.training.corpus.fetching import unpacked
from efim_lab.workshop.training.corpus.go.splits import SPLITS
from efim_lab.workshop.training.corpus.language import CorpusSource, Found, RefusedPackage
from efim_lab.workshop.training.corpus.licences import is_permissive
from efim_lab.workshop.training.corpus.own_code import sources_in

PACKAGES = Path(__file__).with_name("packages.txt")  # of Debian 12
_NOTICE = "usr/share/doc/*/copyright"
_SOURCES = ("usr/share/gocode/src", "usr/share/go-*/src")  # where modules lie, and the standard library
_OTHERS = re.compile(
    r"(^|/)(\.[^/]*|_[^/]*|testdata|tests?|vendor|third[-_]?party)/|_test\.go$|"
    r"\.pb(\.gw)?\.go$|(^|/)z?z_[^/]*\.go$|(^|/)zz?[a-z]+_[^/]*\.go$"
)


def fetch(out: Path, listed: Path = PACKAGES) -> list[Path]:
    """Download the listed packages and check their digests; return their unpacked folders."""
    return fetch_binaries(out, listed)


def fetched(folder: Path) -> list[Path]:
    """List the folders of the packages that `fetch` unpacked."""
    return unpacked(folder, _NOTICE)


def found_in(folder: Path) -> list[Found]:
    """List the sources in a folder: a Debian package, or the user's own folders."""
    return sources_in(folder, SPLITS, "Go", _package, is_wanted)


def _package(folder: Path) -> Found | None:
    """Return a package as a source named by its import path, or as refused for want of a permissive licence.

    Return None for a folder that is no package.
    """
    if (notice := next(folder.glob(_NOTICE), None)) is None:
        return None
    version = unquote(folder.name.partition("_")[2])
    roots = [root for pattern in _SOURCES for root in sorted(folder.glob(pattern))]
    files = sorted(path for root in roots for path in root.rglob("*.go") if path.is_file() and not path.is_symlink())
    root = Path(os.path.commonpath([path.parent for path in files])) if files else folder
    place = next((root.relative_to(each) for each in roots if root.is_relative_to(each)), PurePosixPath())
    name = place.as_posix() if place.name else notice.parent.name
    stated = read_notice(notice.read_text("utf-8", errors="replace"))
    if not is_permissive(stated.licence):
        return RefusedPackage(name, version, stated.licence or "not stated")
    paths = (path.relative_to(root).as_posix() for path in files)
    is_learnt = SPLITS.is_learnt(name)
    wanted = (path for path in paths if is_wanted(path) and stated.permits(place / path))
    kept = (path for path in wanted if not (is_learnt and _is_copy(place / path)))
    return CorpusSource(name, version, stated.licence, root, tuple(kept))


def _is_copy(path: PurePath) -> bool:
    """Return whether a file lies in a module that is not trained on."""
    return not all(SPLITS.is_learnt(parent.as_posix()) for parent in path.parents)


def is_wanted(name: str) -> bool:
    """Return whether a relative path belongs to code written by hand: no tests, generated files or copies."""
    return name.endswith(".go") and not _OTHERS.search(name)
