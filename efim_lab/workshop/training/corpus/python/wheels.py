"""Fetches the listed distributions as wheels and unpacks them; none is installed and none of their code is run."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PureWindowsPath

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.fetching import new_folder, unpacked

DISTRIBUTIONS = Path(__file__).with_name("distributions.txt")  # in pip's format, with hashes
# Code that is only read may ask for any version of Python.
_DOWNLOAD = ("download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--ignore-requires-python")


def fetch(out: Path, listed: Path = DISTRIBUTIONS) -> list[Path]:
    """Download the listed wheels with pip, which checks their hashes; return their unpacked folders, NAME-VERSION."""
    new_folder(out)
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", *_DOWNLOAD, "--requirement", str(listed), "--dest", downloads]
        status = subprocess.run(command, stdout=sys.stderr).returncode
        if status:
            raise WorkError(f"pip ended with status {status}: see its message above")
        return [unpack(wheel, out) for wheel in sorted(Path(downloads).glob("*.whl"))]


def unpack(wheel: Path, out: Path) -> Path:
    """Unpack a wheel into a new folder; raises WorkError if a file in it would lie outside that folder."""
    folder = out / "-".join(wheel.name.split("-")[:2])
    try:
        with zipfile.ZipFile(wheel) as archive:
            for path in map(PureWindowsPath, archive.namelist()):  # it splits at both kinds of slash
                if path.anchor or ".." in path.parts:
                    raise WorkError(f"{wheel.name} names the file {path} outside its folder: take it off the list")
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise WorkError(f"{wheel.name} cannot be unpacked ({error}): fetch it again") from error
    return folder


def fetched(folder: Path) -> list[Path]:
    """List the folders of the distributions that `fetch` unpacked."""
    return unpacked(folder, "*.dist-info", "distributions")
