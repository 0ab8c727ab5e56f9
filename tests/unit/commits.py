"""Small git repositories."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def commit(repository: Path, files: Mapping[str, str]) -> Path:
    """Commit files to a repository, which may be new, and return its folder."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *who, "-C", str(repository), *arguments], check=True, capture_output=True)

    git("init")
    for path, text in files.items():
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).write_text(text, "utf-8")
        git("add", path)
    git("commit", "-m", "a")
    return repository
