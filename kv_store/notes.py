"""Notes on documents: what a server wants to remember of each after a restart, a small file each.

Notes hold no keys and values. Without a note other prompts may be sent; without blocks the same ones cost more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import xxhash

from kv_store.atomic_files import make_folder, replace_file

CHECK_BYTES = 8
MAX_NOTE_BYTES = 1 << 24  # of an unpacked note: a damaged one must not fill the memory
SUFFIX = ".note"


class Notes:
    """One file for each document, named by its tag: a checksum and the compressed note."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Store notes in a folder, created with the first one; the oldest are removed to make room for new ones."""
        self._folder, self._max_bytes = folder, max_bytes

    def read(self, document: int) -> bytes | None:
        """Return the document's note, or None if it is missing or damaged."""
        try:
            return _unpacked(self._path(document).read_bytes())
        except (OSError, ValueError, zlib.error):
            return None

    def write(self, document: int, note: bytes) -> None:
        """Replace the document's note; a note too large for the folder is not written. Raises OSError."""
        packed = _packed(note)
        if len(packed) > self._max_bytes:
            self.remove(document)
            return
        make_folder(self._folder)
        self._make_room(self._path(document), len(packed))
        replace_file(self._path(document), packed)

    def remove(self, document: int) -> None:
        """Remove the document's note, if there is one; raises OSError."""
        self._path(document).unlink(missing_ok=True)

    def documents(self) -> Iterator[int]:
        """Yield the tags of all documents that have a note."""
        for path in self._folder.glob(f"*{SUFFIX}"):
            try:
                yield int(path.stem, 16)
            except ValueError:  # not one of ours
                continue

    def _path(self, document: int) -> Path:
        return self._folder / f"{document:016x}{SUFFIX}"

    def _make_room(self, for_path: Path, size: int) -> None:
        others = sorted((path.stat().st_mtime, path) for path in self._folder.glob(f"*{SUFFIX}") if path != for_path)
        room = self._max_bytes - size - sum(path.stat().st_size for _, path in others)
        for _, path in others:
            if room >= 0:
                return
            room += path.stat().st_size
            path.unlink(missing_ok=True)


def _packed(note: bytes) -> bytes:
    compressed = zlib.compress(note)
    return xxhash.xxh3_64_digest(compressed) + compressed


def _unpacked(content: bytes) -> bytes:
    check, compressed = content[:CHECK_BYTES], content[CHECK_BYTES:]
    if xxhash.xxh3_64_digest(compressed) != check:
        raise ValueError("damaged")
    decompress = zlib.decompressobj()
    note = decompress.decompress(compressed, MAX_NOTE_BYTES)
    if not decompress.eof:
        raise ValueError("too long")
    return note
