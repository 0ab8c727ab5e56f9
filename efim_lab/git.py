"""Runs git, for what the laboratory reads of repositories and makes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from efim_lab.errors import WorkError


def run_git(repository: Path, *arguments: str) -> bytes:
    """Return what git prints in a repository; raises WorkError with its reason."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise WorkError("there is no git to read a history with: install it") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise WorkError(
            f"{repository} has no history ({reason[0] if reason else 'git failed'}): name a git repository"
        )
    return done.stdout
