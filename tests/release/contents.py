"""`python -m tests.release.contents`: write what the wheel in dist/ holds into its golden file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from ..editors.fetching.part import ROOT

GOLDEN = ROOT / "tests" / "golden" / "release" / "wheel.txt"
INDENT = "    "


def files_in(wheel: Path) -> set[str]:
    """Return the files of a wheel, those that pip reads without the version in their folder's name."""
    version = wheel.name.split("-")[1]
    with ZipFile(wheel) as archive:
        return {name.replace(f"-{version}.", ".", 1) for name in archive.namelist() if not name.endswith("/")}


def listing(files: Iterable[str]) -> str:
    """Return the text of a golden file: each folder, and below it its files."""
    paths = sorted(map(PurePosixPath, files), key=lambda path: (path.parent.parts, path.name))
    folders = groupby(paths, key=lambda path: path.parent)
    return "".join(f"{folder}/\n" + "".join(f"{INDENT}{path.name}\n" for path in below) for folder, below in folders)


def read_listing(text: str) -> set[str]:
    """Return the files that a listing names."""
    files, folder = set[str](), ""
    for line in text.splitlines():
        if line.startswith(INDENT):
            files.add(folder + line.strip())
        else:
            folder = line
    return files


if __name__ == "__main__":
    [built] = (ROOT / "dist").glob("efim_ls-*-manylinux_*.whl")
    GOLDEN.write_text(listing(files_in(built)), "utf-8", newline="\n")
