"""What of a file other machines may get: what the last commit has, and no more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from efim_ls.access.committed import CommittedTexts

COMMITTED = "width = 1\nprint(width)\n"
Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Run git in a new repository that has committed `app.py`."""
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    monkeypatch.setenv("XDG_CONFIG_HOME", environment["XDG_CONFIG_HOME"])

    def run(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, env=environment, check=True, capture_output=True)

    run("init", "--initial-branch=main")
    (tmp_path / "app.py").write_text(COMMITTED)
    run("add", "app.py")
    run("commit", "--message=one")
    return run


@pytest.fixture
def texts() -> Iterator[CommittedTexts]:
    texts = CommittedTexts(("private/",))
    yield texts
    texts.close()


def uri(folder: Path, name: str = "app.py") -> str:
    return (folder / name).as_uri()


@pytest.mark.usefixtures("git")
def test_what_was_typed_since_is_not_in_it(tmp_path: Path, texts: CommittedTexts) -> None:
    (tmp_path / "app.py").write_text(COMMITTED + "password = 'typed'\n")
    assert texts.text(uri(tmp_path)) == COMMITTED


def test_what_is_staged_alone_is_not_in_it(tmp_path: Path, git: Git, texts: CommittedTexts) -> None:
    for name in ("app.py", "new.py"):
        (tmp_path / name).write_text("password = 'staged'\n")
    git("add", "app.py", "new.py")
    assert texts.text(uri(tmp_path)) == COMMITTED
    assert texts.text(uri(tmp_path, "new.py")) is None


def test_it_follows_the_branch(tmp_path: Path, git: Git, texts: CommittedTexts) -> None:
    assert texts.text(uri(tmp_path)) == COMMITTED
    git("checkout", "-b", "other")
    (tmp_path / "app.py").write_text("height = 2\n")
    git("commit", "--all", "--message=two")
    assert texts.text(uri(tmp_path)) == "height = 2\n"
    git("checkout", "main")
    assert texts.text(uri(tmp_path)) == COMMITTED
    git("rm", "app.py")
    git("commit", "--message=gone")
    assert texts.text(uri(tmp_path)) is None


def test_packed_repositories_and_worktrees_are_read(tmp_path: Path, git: Git, texts: CommittedTexts) -> None:
    assert texts.text(uri(tmp_path)) == COMMITTED
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "in.py").write_text("inside = 1\r\n", newline="")
    git("add", "folder")
    git("commit", "--message=two")
    git("gc")
    git("worktree", "add", str(tmp_path / "tree"), "--detach")
    assert (
        texts.text(uri(tmp_path, "folder/in.py")) == texts.text(uri(tmp_path, "tree/folder/in.py")) == "inside = 1\n"
    )


@pytest.mark.parametrize("name", ["private/app.py", "secrets.yaml", "ignored.py", "logs/app.py"])
def test_what_stays_on_this_machine_does_so_when_it_is_committed(
    tmp_path: Path, git: Git, texts: CommittedTexts, name: str
) -> None:
    (tmp_path / ".gitignore").write_text("ignored.py\nlogs/\n")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("password = 'committed'\n")
    git("add", "--force", ".gitignore", name)
    git("commit", "--message=two")
    assert texts.text(uri(tmp_path, name)) is None
    assert texts.text(uri(tmp_path)) == COMMITTED


def test_a_link_is_the_file_that_it_leads_to(tmp_path: Path, git: Git, texts: CommittedTexts) -> None:
    (tmp_path / "link.py").symlink_to("app.py")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "real.py").write_text("password = 1\n")
    (tmp_path / "open.py").symlink_to("private/real.py")
    git("add", "--all")
    git("commit", "--message=two")
    assert texts.text(uri(tmp_path, "link.py")) == COMMITTED
    assert texts.text(uri(tmp_path, "open.py")) is None


def test_without_a_commit_there_is_nothing(tmp_path: Path, texts: CommittedTexts) -> None:
    (tmp_path / "app.py").write_text(COMMITTED)
    assert texts.text(uri(tmp_path)) is None
    subprocess.run(["git", "init"], cwd=tmp_path, check=True, capture_output=True)
    assert texts.text(uri(tmp_path)) is None
    assert texts.text("untitled:Untitled-1") is None


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize("damage", [b"", b"damaged"])
def test_a_damaged_repository_shares_nothing(tmp_path: Path, texts: CommittedTexts, damage: bytes) -> None:
    for path in (tmp_path / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(damage)
    assert texts.text(uri(tmp_path)) is None


@pytest.mark.usefixtures("git")
def test_what_is_no_text_is_not_shared(tmp_path: Path, git: Git, texts: CommittedTexts) -> None:
    (tmp_path / "app.py").write_bytes(b"\xff\xfe\x00")
    git("commit", "--all", "--message=two")
    assert texts.text(uri(tmp_path)) is None
