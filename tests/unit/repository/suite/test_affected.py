"""Which tests `make check` chooses, in a small tree of files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import affected
from tests.affected import ALWAYS, MOST, ROOT, Suite
from tests.source.rooms import ROOMS

FILES = {
    "tests/unit/ink/test_ink.py": "from shop.ink.pen import Pen",
    "tests/unit/ink/test_filters.py": 'CASES = ROOT / "golden" / "filters"',
    "tests/unit/till/test_sums.py": "from hypothesis import given\nfrom tests.unit.coins import COINS",
    "tests/engine/test_pen.py": "import shop.ink.pen\nfrom hypothesis import given",
    "tests/engine/test_press.py": "def test_press():\n    from shop.ink import press",
    "tests/unit/typed/test_typing.py": "from efim_lab.gate.typing import Line",
    "tests/lsp/test_shop.py": "from shop.till.drawer import Drawer",
    "tests/editors/test_window.py": "from shop.ink.pen import Pen",
    f"{ALWAYS}/test_names.py": "import shop.ink.pen",
}
INK = {"tests/unit/ink/test_ink.py", "tests/unit/ink/test_filters.py"}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Suite(tmp_path)


@pytest.mark.parametrize(
    "change, tests",
    [
        ("docs/ink/pens.md", set()),
        ("docs/till.md", set()),
        ("pyproject.toml", set()),
        ("shop/ink/pen.py", INK | {"tests/engine/test_pen.py"}),
        ("shop/ink/press.py", INK | {"tests/engine/test_press.py"}),
        ("shop/ink/native/pen.c", INK | {"tests/engine/test_pen.py", "tests/engine/test_press.py"}),
        ("shop/till/new.py", {"tests/unit/till/test_sums.py", "tests/lsp/test_shop.py"}),
        ("shop/till/__init__.py", {"tests/unit/till/test_sums.py", "tests/lsp/test_shop.py"}),
        ("efim_lab/gate/typing.py", {"tests/unit/typed/test_typing.py"}),
        ("efim_lab/workshop/native/kernel.c", set()),
        ("efim_lab/studies/paper/table.py", set()),
        ("tests/engine/test_pen.py", {"tests/engine/test_pen.py"}),
        ("tests/engine/test_gone.py", set()),
        ("tests/editors/test_window.py", set()),
        ("tests/unit/coins.py", {"tests/unit/till/test_sums.py"}),
        ("tests/unit/ink/conftest.py", INK),
        ("tests/golden/filters/brackets.txt", {"tests/unit/ink/test_filters.py"}),
    ],
)
def test_a_change_touches(suite: Suite, change: str, tests: set[str]) -> None:
    assert suite.touched([change]) == tests


def test_changes_touch_what_each_of_them_touches(suite: Suite) -> None:
    changes = ["tests/unit/coins.py", "tests/engine/test_press.py", "README.md"]
    assert suite.touched(changes) == {"tests/unit/till/test_sums.py", "tests/engine/test_press.py"}


def test_too_many_leave_unit_tests_and_properties_of_the_engine(suite: Suite) -> None:
    left_out = {"tests/engine/test_press.py", "tests/lsp/test_shop.py"}
    assert suite.quick(suite.imports) == set(suite.imports) - left_out


@pytest.fixture
def clone(tmp_path: Path, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tree as a git repository with one commit."""
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *person, *words), cwd=folder, check=True)


def chosen(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    affected.main(*words)
    return capsys.readouterr().out.splitlines()


def test_without_a_change_the_repositorys_own_tests_are_left(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(capsys) == [ALWAYS]


def test_new_moved_and_changed_files_count(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clone / "shop/ink").mkdir(parents=True)
    (clone / "shop/ink/paper.py").write_text("")
    (clone / "tests/lsp/test_shop.py").write_text("")
    git(clone, "mv", "tests/unit/till/test_sums.py", "tests/unit/till/test_totals.py")
    moved = "tests/unit/till/test_totals.py"
    assert set(chosen(capsys)) == {ALWAYS, *INK, "tests/engine/test_pen.py", "tests/engine/test_press.py", moved} | {
        "tests/lsp/test_shop.py"
    }


def test_what_left_the_trunk_counts_when_committed(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    (clone / "tests/lsp/test_shop.py").write_text("")
    git(clone, "commit", "--all", "--quiet", "--message", "more")
    assert chosen(capsys) == [ALWAYS, "tests/lsp/test_shop.py"]
    assert chosen(capsys, "HEAD") == [ALWAYS]


def test_it_says_when_it_leaves_tests_out(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(MOST + 1):
        (clone / f"tests/lsp/test_{number}.py").write_text("import shop.till")
    affected.main()
    said = capsys.readouterr()
    assert said.out.split() == [ALWAYS]
    assert f"{MOST + 1} files of tests" in said.err
    assert "`make test` runs all" in said.err


def test_what_drives_a_changed_room_is_run_once(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, "shop/till", ("lsp/test_shop.py::test_shop", "editors/test_window.py"))
    (clone / "shop/till").mkdir(parents=True)
    (clone / "shop/till/drawer.py").write_text("")
    expected = [ALWAYS, "tests/editors/test_window.py", "tests/lsp/test_shop.py", "tests/unit/till/test_sums.py"]
    assert chosen(capsys) == expected


def test_of_too_many_one_that_drives_each_changed_room_is_left(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, "shop/till", ("lsp/test_0.py::test_shop", "editors/test_window.py"))
    for number in range(MOST + 1):
        (clone / f"tests/lsp/test_{number}.py").write_text("import shop.till")
    (clone / "shop/till").mkdir(parents=True)
    (clone / "shop/till/drawer.py").write_text("")
    assert chosen(capsys) == [ALWAYS, "tests/lsp/test_0.py::test_shop", "tests/unit/till/test_sums.py"]


def test_a_base_that_git_does_not_know_ends_it(clone: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        affected.main("nowhere")


def test_the_makefile_names_tests_that_exist() -> None:
    """pytest does not name a missing path when it has several processes: it says that no tests ran."""
    commands = subprocess.run(("make", "--dry-run", "coverage"), cwd=ROOT, check=True, capture_output=True, text=True)
    named = [word for word in commands.stdout.split() if word.startswith("tests/")]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
