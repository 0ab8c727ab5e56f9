"""Tells from which C sources a library was built. `setup.py` runs this file by itself: it imports nothing of ours."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path

ENDINGS = (".c", ".h")
BUILD_ERROR = ".error.txt"  # ends the name of the file next to a library that holds its compiler's errors


def sources_hash(folder: Path) -> str:
    """Return a hash of the C sources in a folder, or an empty text if there are none."""
    digest, found = hashlib.sha256(), sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
    for path in found:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest() if found else ""


def embedded_hash(library: ctypes.CDLL, function: str) -> str:
    """Return the hash that a build has put into a library; empty if it is from before there was one."""
    try:
        log = getattr(library, function)
    except AttributeError:
        return ""
    log.restype = ctypes.c_char_p
    return (log() or b"").decode()


def build_error(library: Path) -> str:
    """Return the compiler's message on a library that could not be built, or an empty text."""
    try:
        return library.with_suffix(BUILD_ERROR).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def why_missing(library: Path, part: str, again: str = "install efim-ls again") -> str:
    """Return why a library is not there, or not from these sources, with the remedy: how it is built `again`."""
    if log := build_error(library):
        first = next((line for line in log.splitlines() if "error" in line), log.splitlines()[0]).strip()
        return f"{part} could not be compiled ({first}): install gcc 11 or newer, then {again}"
    built = "was built from other sources" if library.is_file() else "was not built"
    return f"{part} {built}: {again} with gcc 11 or newer"


def load_library(library: Path, part: str, function: str) -> ctypes.CDLL | str:
    """Load a library built from the sources in its folder, or return why it cannot be used.

    `part` is what messages call it, and `function` returns the hash of its sources.
    """
    wanted, reason = sources_hash(library.parent), why_missing(library, part)
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        return f"{part} cannot be loaded ({error}): install efim-ls again" if library.is_file() else reason
    built = embedded_hash(loaded, function)
    return loaded if built and wanted in ("", built) else reason
