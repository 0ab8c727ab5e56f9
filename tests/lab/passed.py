"""Whether the laboratory has changed since its tests passed.

python -m tests.lab.passed            exits with 1 if it has, and says so
python -m tests.lab.passed record     records that the tests of what is there have passed

The sources are the laboratory, its tests, and the files of this repository that either imports.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.source.imports import imports

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("passed.sha256")
FOLDERS = ("efim_lab", "tests/lab")
SUFFIXES = (".py", ".c", ".h")


def sources(root: Path) -> list[Path]:
    """Return the files of the laboratory and its tests, with the files that these import, in order."""
    own = {path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES}
    imported = {
        path for each in own if each.suffix == ".py" for name in imports(each, root) for path in _files(name, root)
    }
    return sorted(own | imported)


def _files(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module, or of the module that a name is in."""
    for module in (name, name.rpartition(".")[0]):
        place = root / module.replace(".", "/")
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


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
        print("the laboratory is as it was when its tests passed")
        return 0
    print("the laboratory, or a file that it imports, has changed since its tests passed: `make test-lab`")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
