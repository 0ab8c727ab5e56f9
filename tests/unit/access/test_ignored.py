"""Whether git ignores a file, by all lists from the top of its repository down."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.access.ignored import is_ignored


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("app.py", False),
        ("app.log", True),
        ("build/app.py", True),
        ("build/deep/app.py", True),
        ("src/local.py", True),
        ("src/deep/local.py", True),
        ("src/kept.log", False),
        ("src/build.py", False),
        ("other/local.py", False),
        ("inner/app.log", False),  # a repository of its own
        ("excluded.py", True),
    ],
)
def test_lists_hold_from_the_top_of_the_repository(tmp_path: Path, name: str, ignored: bool) -> None:
    for git in (".git/info", "inner/.git"):
        (tmp_path / git).mkdir(parents=True)
    (tmp_path / ".git/info/exclude").write_text("excluded.py\n")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/.gitignore").write_text("local.py\n!kept.log\n")
    assert is_ignored(str(tmp_path / name)) is ignored


def test_outside_a_repository_nothing_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.py\n")
    assert not is_ignored(str(tmp_path / "app.py"))


def test_a_list_that_changes_holds_at_once(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert not is_ignored(str(tmp_path / "app.py"))
    (tmp_path / ".gitignore").write_text("*.py\n")
    assert is_ignored(str(tmp_path / "app.py"))
