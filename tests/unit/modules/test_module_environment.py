"""Where the modules of a workspace's environment are found."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from efim_ls.workspace.modules.environment import OWN_VERSION, Environment, find_environment, modules_in
from tests.unit.modules.conftest import write


def virtual(folder: Path, home: Path, version: str = "3.99.1") -> Path:
    """Make an environment of a Python in `home`, and return its folder of packages."""
    site = folder / "lib" / f"python{version.rpartition('.')[0]}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {home / 'bin'}\nversion = {version}\n")
    (home / "lib" / f"python{version.rpartition('.')[0]}").mkdir(parents=True, exist_ok=True)
    return site


def test_the_environment_of_a_folder_comes_before_the_active_one(tmp_path: Path) -> None:
    home, folder = tmp_path / "python", tmp_path / "project"
    usual, active = virtual(folder / ".venv", home), virtual(tmp_path / "active", home)
    variables = {"VIRTUAL_ENV": str(tmp_path / "active")}
    found = find_environment([folder], variables=variables)
    assert found.installed == (str(usual),)
    assert found.library == str(home / "lib" / "python3.99")
    assert found.is_whole
    assert not found.is_own
    assert find_environment([tmp_path / "other"], variables=variables).installed == (str(active),)


def test_a_chosen_python_comes_first(tmp_path: Path) -> None:
    home, folder = tmp_path / "python", tmp_path / "project"
    virtual(folder / ".venv", home)
    site = virtual(tmp_path / "chosen", home)
    write(tmp_path / "chosen", {"bin/python": ""})
    for chosen in (tmp_path / "chosen", tmp_path / "chosen" / "bin" / "python"):
        assert find_environment([folder], chosen, {}).installed == (str(site),)


def test_without_an_environment_it_is_the_library_of_this_python(tmp_path: Path) -> None:
    found = find_environment([tmp_path], variables={})
    assert found.library == sysconfig.get_path("stdlib")
    assert found.is_own
    assert not found.is_whole
    assert {"csv", "asyncio", "sys", "math"} <= found.places().keys()
    assert found.place("math") is not None


def test_the_library_of_another_version_is_unknown_if_it_is_not_there(tmp_path: Path) -> None:
    home = tmp_path / "python"
    virtual(tmp_path / ".venv", home)
    (home / "lib" / "python3.99").rmdir()
    found = find_environment([tmp_path], variables={})
    assert found.library == ""
    assert found.place("csv") is None


def test_path_files_add_folders_and_are_not_run(tmp_path: Path) -> None:
    site = virtual(tmp_path / ".venv", tmp_path / "python")
    (tmp_path / "more").mkdir()
    write(site, {"a.pth": f"import os; os.mkdir({str(tmp_path / 'run')!r})\n{tmp_path / 'more'}\nnowhere\n"})
    found = find_environment([tmp_path], variables={})
    assert found.installed == (str(site), str(tmp_path / "more"))
    assert not (tmp_path / "run").exists()
    assert found.is_whole
    write(site, {"__editable___mine_finder.py": ""})
    assert not find_environment([tmp_path], variables={}).is_whole


def test_places(tmp_path: Path) -> None:
    library, site, local = (tmp_path / name for name in ("library", "site", "local"))
    write(library, {"csv.py": "", "shadowed.py": ""})
    write(site, {"a/__init__.py": "", "a/b.py": "", "stub.py": "", "stub.pyi": "", "space/c.py": "", "csv.py": ""})
    write(local, {"mine.py": "", "shadowed.py": "", "space/d.py": ""})
    found = Environment(str(library), OWN_VERSION, (str(site),), (str(local),))

    def path_of(module: str) -> str | None:
        place = found.place(module)
        return place.path and str(Path(place.path).relative_to(tmp_path)) if place else None

    names = ("csv", "a", "a.b", "stub", "space.c")
    assert [*map(path_of, names)] == [
        "library/csv.py", "site/a/__init__.py", "site/a/b.py", "site/stub.pyi", "site/space/c.py",
    ]  # fmt: skip
    assert [path_of(name) for name in ("shadowed", "mine", "a.c", "a.b.c", "", "..", "a/b", "\0")] == [None] * 8
    assert (space := found.place("space"))
    assert space.folder == str(site / "space")
    assert (compiled := found.place("sys"))
    assert compiled.is_compiled
    foreign = next(name for name in ("nt", "posix") if name not in sys.builtin_module_names)
    assert (place := found.place(foreign))
    assert place.is_foreign


def test_places_in_plain_words(tmp_path: Path) -> None:
    folder, library, other = (tmp_path / name for name in ("project", "library", "other"))
    site = folder / ".venv" / "site-packages"
    write(library, {"csv.py": "", "shadowed.py": "", "first.py": ""})
    write(site, {"a.py": "", "first.py": "", "shadowed.py": "", "data.py": "", "_private.py": ""})
    write(other, {"a.py": "", "b.py": ""})
    write(folder, {"mine.py": "", "shadowed.py": "", "data/some.txt": "", "src/space/c.py": ""})
    installed, local = (str(site), str(other)), (str(folder), str(folder / "src"))
    places = Environment(str(library), OWN_VERSION, installed, local).places()
    assert {places[name] for name in ("csv", "first", "sys")} == {"the standard library"}
    in_environment = os.path.join(".venv", "site-packages")
    assert {places[name] for name in ("a", "data", "_private")} == {in_environment}
    assert places["b"] == str(other), "a folder elsewhere has its whole path"
    assert {places[name] for name in ("mine", "shadowed", "space")} == {"the workspace"}


def test_links_that_lead_round_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path, {"a/__init__.py": ""})
    os.symlink(tmp_path / "a", tmp_path / "a" / "a")
    os.symlink(tmp_path / "loop.py", tmp_path / "loop.py")
    found = Environment(str(tmp_path), OWN_VERSION)
    assert found.place("a" + ".a" * 5) is not None
    assert found.place("a" + ".a" * 500) is None
    assert found.place("loop") is None


def test_modules_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "b/c.py": "", "d.pyi": "", "e.cpython-311.so": "", "_f.py": ""})
    write(tmp_path, {"__main__.py": "", "g.txt": "", "tests/x.py": "", "h-1.dist-info/x": "", "i.libs/x": ""})
    assert modules_in(str(tmp_path)) == {"a", "b", "d", "e", "_f"}
    assert modules_in(str(tmp_path / "nowhere")) == set()
