"""Fetches the listed packages of Debian with apt-get; nothing of them is installed or run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from efim_lab.workshop.training.corpus.fetching import ListedPackage, archives, new_folder, run

_AT_ONCE = 100  # packages that apt is asked for
_STANZA, _LINE = re.compile(r"^(Types:[ \t]*deb)[ \t]*$", re.MULTILINE), re.compile(r"^deb[ \t](.*)$", re.MULTILINE)


def fetch_binaries(out: Path, listed: Path) -> list[Path]:
    """Download packages as they are installed, check their digests, and return their unpacked folders."""
    new_folder(out)
    return _extracted(out, archives(listed, _AT_ONCE, _download_binaries), "dpkg-deb")


def fetch_sources(out: Path, listed: Path) -> list[Path]:
    """Download the sources of packages, check their digests, and return their unpacked folders.

    A listed digest is the digest of a package's description, which names the digests of all its archives.
    """
    new_folder(out)
    with TemporaryDirectory() as folder:
        options = _with_sources(Path(folder))
        run(("apt-get", *options, "--quiet=2", "update"), out)

        def download(packages: Sequence[ListedPackage], folder: Path) -> Iterator[Path]:
            names = (each.package for each in packages)
            run(("apt-get", *options, "--quiet=2", "--only-source", "--download-only", "source", *names), folder)
            return (path for each in packages for path in folder.glob(f"{each.package.partition('=')[0]}_*.dsc"))

        return _extracted(out, archives(listed, _AT_ONCE, download), "dpkg-source")


def _extracted(out: Path, found: Iterable[tuple[ListedPackage, Path]], program: str) -> list[Path]:
    """Unpack each package with a program into a folder with the package's name and version; return the folders."""
    folders = list[Path]()
    for each, archive in found:
        name, _, version = each.package.partition("=")
        folders.append(out / f"{name}_{version.replace(':', '%3a')}")
        run((program, "--extract", str(archive), str(folders[-1])), out)
    return folders


def _download_binaries(packages: Sequence[ListedPackage], folder: Path) -> Iterator[Path]:
    run(("apt-get", "--quiet=2", "download", *(each.package for each in packages)), folder)
    return (path for each in packages for path in folder.glob(f"{each.package.partition('=')[0]}_*.deb"))


def _with_sources(folder: Path) -> list[str]:
    """Return options that make apt-get know sources, too, by copies of its lists of archives in a folder."""
    parts = folder / "parts"
    parts.mkdir()
    (folder / "lists" / "partial").mkdir(parents=True)
    stated = run(
        ("apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"), folder
    )
    one, others = (Path(each) for each in re.findall(r"'(.*)'", stated))
    for path in (one, *sorted(others.glob("*"))):
        if path.is_file():
            text = _STANZA.sub(r"\1 deb-src", path.read_text("utf-8"))
            (parts / path.name).write_text(_LINE.sub(r"deb \1\ndeb-src \1", text), "utf-8")
    settings = (f"sourceparts={parts}", "sourcelist=/dev/null")
    return [
        *(word for each in settings for word in ("-o", f"Dir::Etc::{each}")),
        "-o",
        f"Dir::State::lists={folder}/lists",
    ]
