"""What an index says about itself: its folders, and the settings by which their files were read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from efim_ls.settings import DEFAULTS, Settings, parse

# The settings that decide which files are read and kept, and with which tokenizer.
OF_INDEX = ("enabled", "disabled_languages", "disabled_files", "persist", "private_files", "model")
COUNT_FILES = """SELECT language, count(*) FROM files JOIN contents ON id = content WHERE NOT gone
    GROUP BY language ORDER BY count(*) DESC, language"""


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
