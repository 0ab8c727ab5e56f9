"""Small files in the cache folder, such as hashes of weights."""

from __future__ import annotations

from pathlib import Path

from kv_store.atomic_files import make_folder, replace_file


class CacheFile:
    """A text in the cache folder, kept between runs; every method raises OSError."""

    def __init__(self, path: Path) -> None:
        """Name the file; it need not exist yet."""
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> str:
        """Return the file's text."""
        return self._path.read_text(encoding="utf-8")

    def write(self, text: str) -> None:
        """Replace the file as a whole, readable by its owner only."""
        make_folder(self._path.parent)
        replace_file(self._path, text.encode())
