"""The table of an environment's names: what it reads, what it never does, and what it forgets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from efim_ls.workspace.modules import table as table_module
from efim_ls.workspace.modules.environment import Environment, find_environment
from efim_ls.workspace.modules.names import Target
from efim_ls.workspace.modules.source import LARGEST
from efim_ls.workspace.modules.table import ModuleTable
from tests.unit.modules.conftest import Learn, learned, write


def names(table: ModuleTable, module: str) -> set[str] | None:
    found = table.view.modules.attributes(Target(module))
    return set(found.kinds) if found else None


def test_what_a_document_refers_to_is_read(learn: Learn) -> None:
    table = learn(
        {
            "a/__init__.py": "from a.inner import Class\nfrom a.stars import *",
            "a/inner.py": "from a.base import Base\nclass Class(Base): own = 1",
            "a/base.py": "class Base: inherited = 1",
            "a/stars.py": "star = 1",
            "a/other.py": "unread = 1",
            "b.py": "unread = 1",
        },
        "import a\na.Class.own",
    )
    assert names(table, "a") == {"Class", "star", "inner", "base", "stars", "other"}
    known = table.view.modules
    members = (at := known.follow(Target("a"), ["Class"])) and known.attributes(at)
    assert members
    assert {"own", "inherited"} <= members.kinds.keys()
    assert names(table, "b") is None
    assert names(table, "a.other") is None
    assert table.view.top_level.kinds.keys() >= {"a", "b"}
    assert not table.view.top_level.is_open


def test_what_is_not_read_is_unknown(environment: Environment) -> None:
    table = ModuleTable(lambda: environment)
    assert table.view.expected("", "import csv\ncsv.x", 16) is None
    assert table.view.top_level.is_open


def test_nothing_of_the_environment_is_run(learn: Learn, site: Path, tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'run')!r}, 'w').close()\nclass Bait: ...\n"
    files = {"a/__init__.py": f"{trap}from a.b import *", "a/b.py": trap, "sitecustomize.py": trap, "json.py": trap}
    table = learn(
        {**files, "usercustomize.py": trap, "x.pth": f"import os; {trap!r}"}, "import a, json, sitecustomize"
    )
    assert names(table, "a") == {"Bait", "b"}
    assert not (tmp_path / "run").exists()
    assert not list(site.rglob("*.pyc"))


@pytest.mark.parametrize(
    "text", ["def broken(:\n", "x = '\0'", "(" * 5_000, "x = " + "-" * 100_000 + "1", f"x = 1\n#{' ' * LARGEST}"]
)
def test_modules_that_cannot_be_read_are_unknown(learn: Learn, text: str) -> None:
    table = learn({"a.py": text, "b.py": "fine = 1"}, "import a, b")
    assert names(table, "a") is None
    assert names(table, "b") == {"fine"}


def test_an_unreadable_file_and_a_folder_in_its_place_are_unknown(learn: Learn, site: Path) -> None:
    write(site, {"a.py": "x = 1"})
    (site / "a.py").chmod(0)
    (site / "c.py").mkdir()
    os.symlink(site / "d.py", site / "d.py")
    table = learn({"b.py": "fine = 1"}, "import a, b, c, d")
    assert names(table, "a") == ({"x"} if os.access(site / "a.py", os.R_OK) else None)  # all is open to root
    assert names(table, "b") == {"fine"}
    assert names(table, "c") is None
    assert names(table, "d") is None


def test_deep_packages_and_links_in_a_circle(learn: Learn, site: Path) -> None:
    deep = "/".join(["a"] * 30)
    write(site, {f"{deep[: 2 * n + 1]}/__init__.py": "" for n in range(30)})
    os.symlink(site / "a", site / "round")
    os.symlink(site, site / "a" / "back")
    dotted = ".".join(["a"] * 30)
    table = learn({f"{deep}/end.py": "x = 1"}, f"import {dotted}.end, round.a, a.back.a.back.a")
    assert names(table, f"{dotted}.end") == {"x"}
    assert names(table, "a.back.a") == {"a", "back"}


def test_stubs_come_first(learn: Learn) -> None:
    assert names(learn({"a.py": "x = 1", "a.pyi": "y: int"}, "import a"), "a") == {"y"}


def test_a_module_that_changes_is_read_again(learn: Learn, site: Path) -> None:
    table = learn({"a.py": "old = 1"}, "import a")
    version = table.view.version
    learned(table, "import a")
    assert table.view.version == version
    write(site, {"a.py": "another = 1"})
    learned(table, "import a")
    assert names(table, "a") == {"another"}
    assert table.view.version > version
    (site / "a.py").unlink()
    learned(table, "import a")
    assert names(table, "a") is None


def test_a_module_beside_a_script_hides_the_installed_one(learn: Learn, tmp_path: Path) -> None:
    table = learn({"a.py": "x = 1", "b.py": "y = 1"}, "import a, b")
    write(tmp_path, {"scripts/a.py": "", "package/__init__.py": "", "package/b.py": ""})
    learned(table, "import a, b", str(tmp_path / "scripts" / "main.py"))
    learned(table, "import a, b", str(tmp_path / "package" / "main.py"))
    assert names(table, "a") is None
    assert names(table, "b") == {"y"}


def test_the_budget_is_kept(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "MOST_SECONDS", 0.0)
    assert names(learn({"a.py": "x = 1"}, "import a"), "a") is None
    monkeypatch.undo()
    monkeypatch.setattr(table_module, "MOST_BYTES", 0)
    assert names(learn({"a.py": "x = 1"}, "import a"), "a") is None


def test_readers_that_die_are_replaced_a_few_times(
    learn: Learn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path, {"reader.py": f"open({str(tmp_path / 'starts')!r}, 'a').write('1')\nraise SystemExit"})
    monkeypatch.setattr(table_module.source, "__file__", str(tmp_path / "reader.py"))
    table = learn({f"{name}.py": "" for name in "abcdef"}, "import a, b, c, d, e, f")
    assert all(names(table, name) is None for name in "abcdef")
    assert (tmp_path / "starts").read_text() == "1" * table_module.MOST_DEATHS


def test_a_compiled_module_of_another_version_is_open(environment: Environment) -> None:
    other = Environment(environment.library, "2.7")
    found = learned(ModuleTable(lambda: other), "import sys, math").view.modules.attributes(Target("sys"))
    assert found
    assert found.is_open
    assert "path" in found.kinds


def test_names_that_the_library_has_elsewhere_are_known(tmp_path: Path) -> None:
    table = learned(
        ModuleTable(lambda: find_environment([tmp_path], variables={})), "import os, sys, nt, posix, winreg"
    )
    of_os, of_sys = table.view.modules.attributes(Target("os")), table.view.modules.attributes(Target("sys"))
    assert of_os
    assert of_sys
    assert all(map(of_os.may_have, ("startfile", "fork", "makedirs")))
    assert of_sys.may_have("last_traceback")
    assert not of_os.may_have("makedirectories")
    answers = [table.view.modules.attributes(Target(name)) for name in ("nt", "posix")]
    foreign = [names for names in answers if names and names.is_open]
    assert foreign


def test_the_library_of_this_python(tmp_path: Path) -> None:
    table = ModuleTable(lambda: find_environment([tmp_path], variables={}))
    text = "import asyncio, csv, os, tempfile, math\nfrom pathlib import Path\nos.path\ncsv.DictReader\n"
    view = learned(table, text).view

    def beginning(code: str) -> list[str] | None:
        found = view.expected("file:///a.py", text + code, len(text + code))
        return found.names.beginning_with(found.stub) if found and not found.names.is_open else None

    assert beginning("asyncio.Ses") == []
    assert beginning("csv.Dict") == ["DictReader", "DictWriter"]
    assert beginning("csv.Dictionary") == []
    assert beginning("tempfile.mkd") == ["mkdtemp"]
    assert beginning("Path.cw") == ["cwd"]
    assert beginning("math.sq") == ["sqrt"]
    assert beginning("os.maked") == ["makedirs", "makedev"]
    assert beginning("os.path.jo") == ["join"]
    assert beginning("from csv import DictR") == ["DictReader"]
    found = view.expected("file:///a.py", f"{text}csv.DictReader(f, fi", len(text) + 21)
    assert found
    assert found.names.beginning_with("fi") == ["fieldnames"]


def test_it_is_known_where_names_are_from(learn: Learn, site: Path) -> None:
    text = "import a.b, sys\nfrom a.b import Class as Other, function\n"
    source = "class Class:\n    member = 1\ndef function(key): ..."
    view = learn({"a/__init__.py": "", "a/b.py": source}, text).view

    def sources(code: str) -> set[str]:
        found = view.expected("file:///a.py", text + code, len(text + code))
        assert found
        return {found.source(name) for name in found.names.beginning_with(found.stub)}

    assert sources("x = a.b.fun") == sources("from a.b import ") == {f"from a.b in {site}"}
    assert sources("x = Other.mem") == {f"from a.b.Class in {site}"}
    assert sources("function(ke") == {f"from a.b.function in {site}"}
    assert sources("import a.") == {f"from a in {site}"}
    assert sources("sys.exi") == {"from sys in the standard library"}
    assert sources("import a") == {f"from {site}", "from the standard library"}


def test_a_module_beside_a_script_is_of_the_workspace(learn: Learn, tmp_path: Path) -> None:
    table = learn({"a.py": "x = 1"}, "import a")
    write(tmp_path, {"scripts/a.py": ""})
    learned(table, "import a", str(tmp_path / "scripts" / "main.py"))
    found = table.view.expected("", "import a", 8)
    assert found
    assert found.source("a") == "from the workspace"


def test_an_environment_that_is_made_later_is_found(environment: Environment, site: Path) -> None:
    found = [Environment(environment.library, environment.version)]
    table = learned(ModuleTable(lambda: found[0]), "import a")
    assert table.view.top_level.is_open
    write(site, {"a.py": "x = 1"})
    found[0] = environment
    learned(table, "import a")
    assert names(table, "a") == {"x"}
    assert not table.view.top_level.is_open
