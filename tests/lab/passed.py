"""Whether the workshop and the studies have changed since their tests passed.

python -m tests.lab.passed            exits with 1 if they have, and says so
python -m tests.lab.passed record     records that the tests of what is there have passed

The sources are these rooms and their tests, the command lines of the laboratory, and the files of this repository
that any of them imports.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.source.imports import files_of, imports

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("passed.sha256")
FOLDERS = ("efim_lab/workshop", "efim_lab/studies", "efim_lab/gate/commands", "tests/lab")
ABOVE = "efim_lab"  # whose own files are the table of the rooms
SUFFIXES = (".py", ".c", ".h")


def sources(root: Path) -> list[Path]:
    """Return the files of the rooms and their tests, with the files that these import, in order."""
    own = {path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES}
    own |= set((root / ABOVE).glob("*.py"))
    imported = {
        path for each in own if each.suffix == ".py" for name in imports(each, root) for path in files_of(name, root)
    }
    return sorted(own | imported)


def digest(root: Path, paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files below `root`."""
    total = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{content} {path.relative_to(root).as_posix()}\n".encode())
    return total.hexdigest()


def main(*words: str) -> int:
    now = digest(ROOT, sources(ROOT))
    if words == ("record",):
        RECORD.write_text(f"{now}\n", "utf-8")
        return 0
    if RECORD.exists() and RECORD.read_text("utf-8").strip() == now:
        print("workshop and studies are as they were when their tests passed")
        return 0
    print("the workshop, a study, or a file that they import, has changed since their tests passed: `make test-lab`")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
