"""The laboratory has three rooms, and what `make check` and `make test` read of it is the gate."""

from __future__ import annotations

import re
from pathlib import Path

from tests.source.imports import files_of, imports, reached, within

ROOT = Path(__file__).parents[4]
LABORATORY, GATE, WORKSHOP, STUDIES = (f"efim_lab{room}" for room in ("", ".gate", ".workshop", ".studies"))
TABLE = ("efim_lab/commands.py", "efim_lab/laboratory_page.py")  # what alone knows all rooms
# What belongs to a room outside it: its tests, and what `make bench` prints of it.
BELONGS = {
    "tests/lab": (WORKSHOP, STUDIES),
    "benchmarks/experts": ("efim_lab.studies.placement",),
    "benchmarks/learning": (WORKSHOP,),
    "benchmarks/training.py": (WORKSHOP,),
}
MOST_LINES = 7_000
OF_RELEASE = ("efim_lab.workshop.publishing.models_apart", "efim_lab.workshop.publishing.wheel")
STARTED = re.compile(r'(?:"-m", |\brun\(|program=|^PROGRAM = )"(efim_lab(?:\.\w+)*)"', re.MULTILINE)  # by a test


def python(*folders: str) -> dict[str, Path]:
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


def allowed(name: str) -> tuple[str, ...]:
    """Return what of the workshop and the studies a file may import."""
    if name in TABLE:
        return (WORKSHOP, STUDIES)
    own = [room for room in (WORKSHOP, STUDIES) if name.startswith(f"{room.replace('.', '/')}/")]
    return (*own, *(each for place, rooms in BELONGS.items() if name.startswith(place) for each in rooms))


def test_nothing_imports_workshop_or_studies_but_what_belongs_to_them() -> None:
    packages = ("efim_ls", "model_runtime", "kv_store", "editor_clients", LABORATORY, "benchmarks", "tests")
    found = {
        (name, each)
        for name, path in python(*packages).items()
        for each in imports(path, ROOT)
        if within(each, WORKSHOP, STUDIES) and not within(each, *allowed(name))
    }
    assert found == set()


def test_the_gate_imports_no_table() -> None:
    tables = tuple(name.removesuffix(".py").replace("/", ".") for name in TABLE)
    assert {name for name, path in python("efim_lab/gate").items() if _imports(path, *tables)} == set()


def _imports(path: Path, *names: str) -> bool:
    return any(within(each, *names) for each in imports(path, ROOT))


def test_the_makefile_starts_what_is_counted_here() -> None:
    started = re.findall(r"-m (efim_lab\.[\w.]+)", (ROOT / "Makefile").read_text("utf-8"))
    assert sorted(started) == sorted(OF_RELEASE)


def test_checks_and_tests_read_few_lines_of_the_laboratory() -> None:
    """Whatever a test imports, lazily as well, or starts; and what makes the release, which `make test` looks at."""
    tests = {name: path for name, path in python("tests").items() if not name.startswith("tests/lab/")}
    texts = (path.read_text("utf-8") for path in tests.values())
    programs = {f"{each}.__main__" for text in texts for each in STARTED.findall(text)}
    started = {path for name in (*programs, *OF_RELEASE) for path in files_of(name, ROOT)}
    read = {path for path in reached({*tests.values(), *started}, ROOT) if path.is_relative_to(ROOT / LABORATORY)}
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in read}
    print(f"lines of the laboratory that make check and make test read: {sum(lines.values()):,} of {MOST_LINES:,}")
    others = {
        path.relative_to(ROOT).as_posix() for path in read if not path.is_relative_to(ROOT / LABORATORY / "gate")
    }
    assert others <= {
        "efim_lab/__init__.py",
        *(f"efim_lab/workshop/{each}.py" for each in ("__init__", "publishing/__init__")),
        *(f"{each.replace('.', '/')}.py" for each in OF_RELEASE),
    }
    assert sum(lines.values()) <= MOST_LINES
