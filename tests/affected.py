"""Which tests a change touches.

python -m tests.affected [BASE]    prints them, one a line

A change is all that differs from the commit BASE, committed or not: by default from where the branch left
origin/main, or from HEAD where there is no origin/main. Tests are chosen by what they import, and those that drive a
process by the rooms that changed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tests.source.imports import imports, within
from tests.source.rooms import process_tests

ROOT = Path(__file__).parents[1]
ALWAYS = "tests/unit/repository"  # layers, sizes, names and docs: any file may break them
NEVER = ("tests/editors/", "tests/release/", "tests/gpu/", "tests/lab/")  # for what they import: minutes each
CODE = (".py", ".c", ".h")
MOST = 40  # files of tests that two cores run in about two minutes


class Suite:
    """The files of tests below a root, by what they import; paths are relative to the root, with slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        found = {path.relative_to(root).as_posix(): path for path in sorted((root / "tests").rglob("test_*.py"))}
        self.imports = {
            name: imports(path, root) for name, path in found.items() if not name.startswith((*NEVER, ALWAYS))
        }

    def touched(self, changes: Iterable[str]) -> set[str]:
        """Return the files of tests to run after `changes`, however many."""
        return {test for change in changes for test in self._touched_by(PurePosixPath(change))}

    def _touched_by(self, change: PurePosixPath) -> set[str]:
        match change.parts:
            case ("tests", *_) if str(change) in self.imports:
                return {str(change)}
            case ("tests", "golden", subject, *_):
                return self._naming(subject)
            case ("tests", *_, "conftest.py"):
                return self._inside(change.parent)
            case ("tests", *_):
                return self._importing(_module(change))
            case ("efim_lab", "workshop" | "studies", *_):
                return set()  # `make test-lab` runs their tests
            case _ if change.suffix in CODE:
                rooms = {test for part in change.parent.parts for test in self._inside(f"tests/unit/{part}")}
                return self._nearest(_module(change)) | rooms
            case _:
                return set()

    def _nearest(self, module: str) -> set[str]:
        """Return what imports a module; where no test does, what imports anything of its folder, or of that above."""
        while module:
            if found := self._importing(module):
                return found
            module = module.rpartition(".")[0]
        return set()

    def _importing(self, module: str) -> set[str]:
        return {test for test, names in self.imports.items() if any(within(name, module) for name in names)}

    def _inside(self, folder: PurePosixPath | str) -> set[str]:
        return {test for test in self.imports if test.startswith(f"{folder}/")}

    def _naming(self, subject: str) -> set[str]:
        """Return what reads a golden file or folder."""
        named = re.compile(rf"golden\W+{re.escape(subject)}\b")
        return {test for test in self.imports if named.search((self.root / test).read_text("utf-8"))}

    def quick(self, tests: Iterable[str]) -> set[str]:
        """Return the unit tests of `tests`, and those of the engine that have properties."""
        return {
            test
            for test in tests
            if test.startswith("tests/unit/")
            or (test.startswith("tests/engine/") and any(within(name, "hypothesis") for name in self.imports[test]))
        }


def _module(path: PurePosixPath) -> str:
    """Return the module that a file is or, if it is not Python, its folder."""
    parts = path.with_suffix("").parts if path.suffix == ".py" else path.parent.parts
    return ".".join(parts).removesuffix(".__init__")


def changed(base: str | None) -> list[str]:
    """Return the paths that differ from `base`, among them those that git does not know yet."""
    if base is None:
        left = subprocess.run(("git", "merge-base", "origin/main", "HEAD"), cwd=ROOT, capture_output=True, text=True)
        base = left.stdout.strip() or "HEAD"
    known = _git("diff", "--name-only", "--no-renames", base)
    return [*known, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    ran = subprocess.run(("git", *words), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout.splitlines()


def main(base: str | None = None) -> None:
    suite, changes = Suite(ROOT), changed(base)
    tests, driving = suite.touched(changes), process_tests(changes)
    said = f"{len(changes)} changed files touch {len(tests)} files of tests"
    if len(tests) > MOST:
        tests, driving = suite.quick(tests), process_tests(changes, most=1)
        said += f"; of so many only the {len(tests)} of unit tests and engine properties run: `make test` runs all"
    driving = {each for each in driving if each.partition("::")[0] not in tests}
    print(f"{said}; {len(driving)} more drive processes of the changed rooms", file=sys.stderr)
    print(ALWAYS, *sorted(tests | driving), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
