"""Where things are kept."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

SPEED = "speed.json"  # what passes cost on this machine; beside the models' folders


def cache_folder(named: str) -> Path:
    """The folder that the user names for what is kept on disk, or the system's for caches."""
    return Path(os.path.expanduser(named)) if named else platformdirs.user_cache_path("efim-ls", appauthor=False)
