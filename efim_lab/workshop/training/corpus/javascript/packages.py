"""Fetches the listed packages with npm, and finds the sources in them; nothing of them is installed or run."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.fetching import ListedPackage, archives, new_folder, run, unpacked
from efim_lab.workshop.training.corpus.javascript.splits import SPLITS
from efim_lab.workshop.training.corpus.language import CorpusSource, Found, RefusedPackage
from efim_lab.workshop.training.corpus.licences import is_permissive
from efim_lab.workshop.training.corpus.own_code import sources_in

PACKAGES = Path(__file__).with_name("packages.txt")
_STATED = "package.json"  # in each package: its name, version and licence
_AT_ONCE = 40  # packages that npm is asked for
_CODE = re.compile(r"(?<!\.d)\.(?:[cm]?[jt]s|[jt]sx)$")
_TEST = re.compile(
    r"(^|/)(__\w+__|tests?|testing|specs?|e2e|cypress|fixtures?|mocks?|bench(marks?)?)/|[-._](test|spec)s?\."
)
# Built from the sources, or copied from elsewhere.
_BUILT = re.compile(
    r"(^|/)(\.[^/]*|node_modules|vendor(ed|s)?|third[-_]?party|build|bundles?|bower_components|amd|cjs|commonjs|dist|"
    r"es\d*|esm\d*|fesm\d*|mjs|module|umd|lib-\w+|dist-\w+)/|[-.](min|umd|cjs|esm|bundle|prod|dev|global|iife)\.",
    re.IGNORECASE,
)


def fetch(out: Path, listed: Path = PACKAGES) -> list[Path]:
    """Download the listed packages with npm and check their digests; return their unpacked folders, NAME-VERSION."""
    new_folder(out)
    return [unpack(archive, out) for _, archive in archives(listed, _AT_ONCE, _download)]


def _download(packages: Sequence[ListedPackage], folder: Path) -> Iterator[Path]:
    words = ("npm", "pack", "--ignore-scripts", "--json", *(each.package for each in packages))
    answer = cast("list[dict[str, Any]]", json.loads(run(words, folder)))
    found = {str(each["id"]): folder / str(each["filename"]) for each in answer}
    return (found[each.package] for each in packages)


def unpack(archive: Path, out: Path) -> Path:
    """Unpack a package into a new folder; raises WorkError if a file in it would lie outside that folder."""
    folder = out / archive.name.removesuffix(".tgz")
    try:
        with tarfile.open(archive, "r:gz") as packed:
            files = [each for each in packed if each.isfile()]
            for path in (PureWindowsPath(each.name) for each in files):  # it splits at both kinds of slash
                if path.anchor or ".." in path.parts:
                    raise WorkError(f"{archive.name} names the file {path} outside its folder: take it off the list")
            for each in files:
                each.name = each.name.partition("/")[2]  # it begins with one folder, mostly `package`
            packed.extractall(folder, files, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise WorkError(f"{archive.name} cannot be unpacked ({error}): fetch it again") from error
    return folder


def fetched(folder: Path) -> list[Path]:
    """List the folders of the packages that `fetch` unpacked."""
    return unpacked(folder, _STATED)


def found_in(folder: Path) -> list[Found]:
    """List the sources in a folder: a package, or the user's own folders."""
    return sources_in(folder, SPLITS, "TypeScript or JavaScript", _package, is_wanted)


def _package(folder: Path) -> Found | None:
    """Return a package as a source, or as refused if it states no permissive licence; None if it is none."""
    if not (folder / _STATED).exists():
        return None
    try:
        stated = cast("dict[str, Any]", json.loads((folder / _STATED).read_text("utf-8")))
        name, version, licence = str(stated["name"]), str(stated["version"]), _licence(stated)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"cannot read {folder / _STATED} ({error}): fetch it again") from error
    if not is_permissive(licence):
        return RefusedPackage(name, version, licence or "not stated")
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.is_file())
    return CorpusSource(name, version, licence, folder, tuple(sorted(filter(is_wanted, files))))


def _licence(stated: dict[str, Any]) -> str:
    """Return the licence that a package.json states, as an expression or, in old ones, as an object."""
    match stated.get("license") or next(iter(stated.get("licenses") or ()), None):
        case str(licence) | {"type": str(licence)}:
            return licence
        case _:
            return ""


def is_wanted(name: str) -> bool:
    """Return whether a relative path belongs to code written by hand: no declarations, tests, builds or copies."""
    return bool(_CODE.search(name)) and not _TEST.search(name) and not _BUILT.search(name)
