"""Whether git ignores a file, by all lists from the top of its repository down."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.access.ignored import is_ignored, is_text_ignored


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


# Trees are generated, and what git itself says of them is compared. Its settings and its user's are the test's own.
PATTERNS = st.sampled_from([
    "*.log", "/top.py", "build/", "a/b.py", "**/b.py", "a/**", "!a/b.py", "!*.log", "*", "!*/", "!keep.py", "[ab].py",
    "?.py", "a/*/c.py", "# comment", "", "keep.py", "\\!x.py", "\\#x.py", "b.py   ", "/a/", "!/a/", "**/a/*.py", "A/",
])  # fmt: skip
LISTS = st.lists(PATTERNS, max_size=4)
FILES = ["top.py", "a/b.py", "a/x/c.py", "a/a/b.py", "build/b.py", "b/keep.py", "x.log", "a/x.log", "!x.py", "#x.py"]
ENDS = st.sampled_from(["\n", "\r\n"])


class Trees:
    """A repository, a worktree of another, and a submodule, each at its own place."""

    def __init__(self, folder: Path) -> None:
        self.home, self.main, self.outer = folder / "home", folder / "main", folder / "outer"
        self.home.mkdir()
        for each in (self.main, self.outer, folder / "inner"):
            each.mkdir()
            self.git(each, "init", "-q")
            self.git(each, "commit", "-q", "--allow-empty", "-m", "one")
        self.git(self.main, "worktree", "add", "-q", str(folder / "worktree"))
        self.git(
            self.outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(folder / "inner"), "sub"
        )
        self.tops = {"main": self.main, "worktree": folder / "worktree", "submodule": self.outer / "sub"}

    def git(self, folder: Path, *words: str) -> str:
        who = [word for name in ("user.name=a", "user.email=a@b.c") for word in ("-c", name)]
        done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, env=self.variables)
        return done.stdout

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "XDG_CONFIG_HOME": "", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trees]:
    made = Trees(tmp_path_factory.mktemp("trees"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.variables.items():
            patch.setenv(name, value)
        yield made


@given(
    kind=st.sampled_from(["main", "worktree", "submodule"]),
    lists=st.dictionaries(
        st.sampled_from([".gitignore", "a/.gitignore", "a/x/.gitignore", "exclude", "named"]), LISTS
    ),
    by=st.sampled_from(["nobody", "user", "repository"]),
    start=st.sampled_from(["", "\ufeff"]),
    end=ENDS,
)
@settings(max_examples=40)
def test_git_says_the_same(
    trees: Trees, kind: str, lists: dict[str, list[str]], by: str, start: str, end: str
) -> None:
    top = trees.tops[kind]
    (trees.home / ".config/git").mkdir(parents=True, exist_ok=True)
    exclude = Path(trees.git(top, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude").strip())
    named = trees.home / (".config/git/ignore" if by == "nobody" else "my ignores")
    places = {"exclude": exclude, "named": named}
    for name in (".gitignore", "a/.gitignore", "a/x/.gitignore", "exclude", "named"):
        place = places.get(name, top / name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(start + "".join(f"{each}{end}" for each in lists.get(name, ())), "utf-8", newline="")
    for scope in ("--global", "--local"):
        trees.git(top, "config", scope, "--unset-all", "core.excludesFile")
    if by != "nobody":
        trees.git(top, "config", "--global" if by == "user" else "--local", "core.excludesFile", "~/my ignores")
    for file in FILES:
        (top / file).parent.mkdir(parents=True, exist_ok=True)
    said = trees.git(top, "-c", "core.quotePath=false", "check-ignore", "--no-index", *FILES).splitlines()
    assert [file for file in FILES if is_ignored(str(top / file))] == said


def test_a_link_is_judged_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/.gitignore").write_text("data/\n")
    (tmp_path / "repository/data").mkdir()
    (tmp_path / "repository/src").mkdir()
    (tmp_path / "plain.py").touch()
    (tmp_path / "repository/data/kept.py").touch()
    (tmp_path / "repository/data/link.py").symlink_to(tmp_path / "plain.py")
    (tmp_path / "repository/src/link.py").symlink_to(tmp_path / "repository/data/kept.py")
    (tmp_path / "repository/src/other.py").symlink_to(tmp_path / "plain.py")
    found = {name: is_text_ignored(str(tmp_path / "repository" / name)) for name in ("data/link.py", "src/link.py")}
    assert found == {"data/link.py": True, "src/link.py": True}
    assert not is_text_ignored(str(tmp_path / "repository/src/other.py"))
