"""Where the indexes of workspaces are, and what one says of itself: its folders, and the settings it was read by."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from efim_ls.settings import DEFAULTS, Settings, parse

REPOSITORIES = "repositories"  # folder in the cache folder
SUFFIX = ".sqlite3"
SIDE_FILES = ("-wal", "-shm", "-journal")  # which SQLite puts next to a file
# The settings that decide which files are read and kept, and with which tokenizer.
OF_INDEX = ("enabled", "disabled_languages", "disabled_files", "persist", "private_files", "model")
COUNT_FILES = """SELECT language, count(*) FROM files JOIN contents ON id = content WHERE NOT gone
    GROUP BY language ORDER BY count(*) DESC, language"""


def index_path(cache: Path, folders: Iterable[str | Path]) -> Path:
    """Return the index's file in the cache folder for a set of workspace folders, in any order."""
    real = sorted({os.path.realpath(folder) for folder in folders})
    name = blake2b("\0".join(real).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return cache / REPOSITORIES / f"{name}{SUFFIX}"


def index_size(path: Path) -> int:
    """Return the bytes of an index's file and its side files, 0 if there is none."""
    return sum(each.stat().st_size for each in _files(path) if each.is_file())


def remove_index(path: Path) -> None:
    """Remove an index's file and its side files; raises OSError."""
    for each in _files(path):
        each.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    return [path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)]


class IndexOrigin(NamedTuple):
    """The workspace folders of an index, and the settings of the server that used it last."""

    folders: tuple[str, ...]
    settings: Settings

    def to_json(self) -> str:
        """Return both as JSON; of the settings, those that matter here and are not the defaults."""
        settings, defaults = asdict(self.settings), asdict(DEFAULTS)
        changed = {name: settings[name] for name in OF_INDEX if settings[name] != defaults[name]}
        return json.dumps({"folders": self.folders, "settings": changed})

    @classmethod
    def from_json(cls, text: str) -> IndexOrigin:
        """Return what `to_json` wrote; raises ValueError, TypeError or KeyError if the text is not that."""
        content: Any = json.loads(text)
        return cls(tuple(map(str, content["folders"])), parse(content["settings"])[0])


class IndexSummary(NamedTuple):
    """Where an index is from, and how many files of each language it has, the commonest first."""

    origin: IndexOrigin
    files: Mapping[str, int]

    @property
    def total(self) -> int:
        """Number of files in all languages."""
        return sum(self.files.values())


def read_summary(path: Path) -> IndexSummary | None:
    """Return what an index's file says about itself, None if it is missing, damaged or not an index."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (origin,) = connection.execute("SELECT origin FROM about").fetchone()
            files: dict[str, int] = dict(connection.execute(COUNT_FILES).fetchall())
        return IndexSummary(IndexOrigin.from_json(origin), files)
    except (sqlite3.Error, ValueError, TypeError, KeyError):
        return None
