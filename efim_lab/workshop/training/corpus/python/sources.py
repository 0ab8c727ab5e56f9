"""Finds the sources of a corpus: the standard library, installed distributions, and the user's folders."""

import platform
import re
import sysconfig
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import cast

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.language import CorpusSource, Found, RefusedPackage
from efim_lab.workshop.training.corpus.licences import is_permissive, stated_licence
from efim_lab.workshop.training.corpus.own_code import own_packages
from efim_lab.workshop.training.corpus.python.splits import SPLITS, canonical, holds_copy

_TEST = re.compile(r"(^|/)(tests?|testing|conftest|idle_test|test_[^/]*|[^/]*_tests?)(\.py)?(/|$)")
_OTHERS = re.compile(r"(^|/)(\.[^/]*|site-packages|node_modules|build|dist)/")
_VENDORED = re.compile(r"(^|/)(_?vendor(ed)?(_[^/]*)?|_?extern(al)?|externals|libs|_?third_?party)/")


def running_python_folders() -> list[Path]:
    """Return the running Python's folders: its standard library and its installed distributions."""
    return sorted({Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")})


def found_in(folder: Path) -> list[Found]:
    """List the sources in a folder: a standard library, installed distributions, or the user's own packages."""
    if not folder.is_dir():
        raise WorkError(f"{folder} is not a folder: name one with Python files")
    if (folder / "asyncio" / "base_events.py").exists():
        return [*standard_library(folder)]
    found = installed(folder) if any(folder.glob("*.dist-info")) else packages(folder)
    return SPLITS.admitted(found)


def standard_library(root: Path) -> list[CorpusSource]:
    """List a standard library as two sources: asyncio, which may be set apart, and everything else."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    kept = [name for name in names if not name.startswith("site-packages/") and _wanted(name)]
    asyncio = tuple(name for name in kept if name.startswith("asyncio/"))
    rest = tuple(name for name in kept if not name.startswith("asyncio/"))
    version = platform.python_version() if root == Path(sysconfig.get_path("stdlib")) else root.name
    return [
        CorpusSource("asyncio", version, "PSF-2.0", root, asyncio),
        CorpusSource("python-standard-library", version, "PSF-2.0", root, rest),
    ]


def packages(folder: Path) -> list[CorpusSource]:
    """List the user's own folder: each folder in it is a source, and its loose files form another."""
    return own_packages(folder, lambda name: name.endswith(".py") and _wanted(name) and not _OTHERS.search(name))


def installed(folder: Path) -> Iterator[Found]:
    """List a site-packages folder's distributions in order of name, each as a source or as refused."""
    found = {canonical(dist.metadata["Name"]): dist for dist in distributions(path=[str(folder)])}
    for name, dist in sorted(found.items()):
        licence = stated_licence(cast("Message", dist.metadata))
        if licence and is_permissive(licence):
            files = (file for file in _python_files(dist) if not (SPLITS.is_learnt(name) and holds_copy(file)))
            yield CorpusSource(name, dist.version, licence, folder, tuple(files))
        else:
            yield RefusedPackage(name, dist.version, licence or "not stated")


def _python_files(dist: Distribution) -> tuple[str, ...]:
    names = {path.as_posix() for path in dist.files or [] if path.suffix == ".py"}
    return tuple(sorted(name for name in names if _wanted(name)))


def _wanted(name: str) -> bool:
    """Leave out tests and vendored files: the metadata need not state the latter's licences."""
    return ".." not in name and not _TEST.search(name) and not _VENDORED.search(name)
