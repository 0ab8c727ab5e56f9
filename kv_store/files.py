"""Small files that are written whole or not at all, for their owner's eyes only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, mode 0700; raises OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, mode 0600, beside its place and move it there; raises OSError, and then leaves no trace."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
