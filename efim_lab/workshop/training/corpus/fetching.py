"""Downloads the packages of a list, checks them against it, and lists the unpacked folders."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from efim_lab.gate.errors import WorkError

_LISTED = re.compile(r"(?P<package>\S+) (?P<digest>sha(?:256|512)-\S+)  # (?P<licence>.+)")


class ListedPackage(NamedTuple):
    """A package with its version as its registry's program reads it, the digest of its archive, and its licence.

    The digest is written as subresource integrity is: sha512-BASE64.
    """

    package: str
    digest: str
    licence: str


Download = Callable[[Sequence[ListedPackage], Path], Iterable[Path]]


def archives(listed: Path, at_once: int, download: Download) -> Iterator[tuple[ListedPackage, Path]]:
    """Download the packages of a list, `at_once` of them together, and yield each with its archive.

    `download` writes archives to a folder and returns them in the order of the packages; they are gone once all of
    them were yielded. Raises WorkError at an archive whose digest differs from the list's.
    """
    packages = read_list(listed)
    for at in range(0, len(packages), at_once):
        part = packages[at : at + at_once]
        with tempfile.TemporaryDirectory() as folder:
            for each, archive in zip(part, download(part, Path(folder)), strict=True):
                check_digest(archive, each)
                yield each, archive


def read_list(path: Path) -> list[ListedPackage]:
    """Read a list of packages, one a line; lines that begin with # are comments."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    found = [_LISTED.fullmatch(line) for line in lines]
    if None in found:
        raise WorkError(f"{path.name} has the line {lines[found.index(None)]!r}: write PACKAGE DIGEST  # LICENCE")
    return [ListedPackage(**each.groupdict()) for each in found if each]


def new_folder(out: Path) -> Path:
    """Make a folder to download to; raises WorkError if something is there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WorkError(f"{out} is there already and not an empty folder: name a new one")
    out.mkdir(parents=True, exist_ok=True)
    return out


def unpacked(folder: Path, mark: str, what: str = "packages") -> list[Path]:
    """List the fetched folders that contain a path like `mark`."""
    found = sorted(path for path in folder.glob("*") if any(path.glob(mark)))
    if not found:
        raise WorkError(f"{folder} holds no {what}: make it with `python -m efim_lab train fetch`")
    return found


def check_digest(archive: Path, listed: ListedPackage) -> None:
    """Raise WorkError if an archive's digest differs from the list's."""
    kind, _, expected = listed.digest.partition("-")
    if base64.b64encode(hashlib.new(kind, archive.read_bytes()).digest()).decode() != expected:
        raise WorkError(f"{archive.name} has a digest other than the one listed: fetch it again, or correct the list")


def run(words: Sequence[str], folder: Path) -> str:
    """Run a program in a folder; return its output. Raises WorkError if it is missing or fails."""
    try:
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    except FileNotFoundError as error:
        raise WorkError(f"{words[0]} is not installed: install it first") from error
    if done.returncode:
        raise WorkError(f"{words[0]} ended with status {done.returncode}: see its message above")
    return done.stdout
