"""What editor tests need besides Python packages: parts, each in its own folder, complete or absent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import platformdirs

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "build" / "editors.json"  # tells tests, whose XDG_CACHE_HOME is another, where each part lies
REMEDY = "run `make editors`"
LONGEST = 300  # seconds that one command of a fetch may take


class Missing(Exception):
    """A part cannot be fetched; the message is the reason for skipping its tests."""


@dataclass(frozen=True)
class Part:
    """`fetch` fills the empty folder it is given until `program` lies there, or raises Missing."""

    name: str
    version: str
    program: str
    fetch: Callable[[Path], None]

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"

    def obtain(self) -> Path:
        """Return the program, fetching it unless an earlier run has."""
        home = cache() / self.key
        if not (home / self.program).exists():
            with TemporaryDirectory(prefix=f".{self.key}-", dir=cache()) as scratch:
                made = Path(scratch) / self.key
                made.mkdir()
                self.fetch(made)
                if not (made / self.program).exists():
                    raise Missing(f"{self.key} was fetched but holds no {self.program}")
                put(made, home)
        return home / self.program

    def program_path(self) -> Path:
        """Return what `obtain` found, from the record; for tests, which fetch nothing."""
        known: dict[str, dict[str, str]] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
        entry = known.get(self.key, {"missing": f"{self.key} was not fetched: {REMEDY}"})
        if reason := entry.get("missing"):
            raise Missing(reason)
        if not (path := Path(entry["program"])).exists():
            raise Missing(f"{self.key} is gone from {path.parent}: {REMEDY}")
        return path


def cache() -> Path:
    """Return the folder that all checkouts of this user share."""
    named = os.environ.get("EFIM_LS_EDITORS")
    folder = Path(named).resolve() if named else platformdirs.user_cache_path("efim-ls-editors")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(made: Path, home: Path) -> None:
    """Move a complete folder to its place, replacing what is there."""
    if home.exists():
        home.rename(made.with_name("before"))  # goes with the temporary folder
    made.rename(home)


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return a command's standard output; Missing says why it failed."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{name} failed: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Missing(f"{name} {command[1]} ended with status {done.returncode}: {' '.join(said[-3:])}")
    return done.stdout
