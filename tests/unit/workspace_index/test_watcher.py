"""Watching takes in what a walk of the workspace enters, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from efim_ls.workspace import watcher
from efim_ls.workspace.watcher import FileWatcher, _explained
from tests.waiting import HANG, eventually

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fdinfo"), reason="only Linux tells what is watched")
ENTERED = {".", "src", "src/app"}  # of the workspace's folders


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "STEP", 50)
    monkeypatch.setattr(watcher, "SETTLED", 200)


@contextmanager
def watching(folder: Path) -> Iterator[Callable[[Path], None]]:
    """Watch a folder; yields what waits until a path is reported, or a folder above it."""
    reports = SimpleQueue[list[str]]()

    def wait_for(path: Path) -> None:
        while not set(reports.get(timeout=HANG)) & {str(path), *map(str, path.parents)}:
            pass

    with closing(FileWatcher([folder], reports.put)) as watches:
        eventually(lambda: watched(folder), "nothing is watched")
        yield wait_for
    watches._thread.join(HANG)
    assert not watches._thread.is_alive()


def watched(workspace: Path) -> set[str]:
    """Return the folders within a workspace that this process watches.

    Each is known by its inode: watchers of other tests end later than the tests, and so a count would include theirs.
    """
    found = {folder.stat().st_ino: folder.relative_to(workspace).as_posix() for folder in folders_of(workspace)}
    inodes = set[int]()
    for each in os.listdir("/proc/self/fdinfo"):
        try:
            lines = Path("/proc/self/fdinfo", each).read_text().splitlines()
        except OSError:  # closed since the listing
            continue
        inodes.update(int(line.split("ino:")[1].split()[0], 16) for line in lines if line.startswith("inotify wd:"))
    return {name for inode, name in found.items() if inode in inodes}


def folders_of(workspace: Path) -> Iterator[Path]:
    """Yield a workspace and all folders within it, and what links in it lead to."""
    yield workspace
    yield from (path for path in workspace.rglob("*") if path.is_dir())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in (
        "outside/deep/deeper",
        "work/src/app",
        "work/node_modules/left",
        "work/build/out",
        "work/.git/objects",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/.gitignore").write_text("build/\n")
    (tmp_path / "work/src/link").symlink_to(tmp_path / "outside")
    return tmp_path / "work"


def test_only_folders_that_a_walk_enters_are_watched(workspace: Path):
    with watching(workspace) as wait_for:
        eventually(lambda: watched(workspace) == ENTERED, lambda: f"watched are {watched(workspace)}")
        (workspace / "src/app/a.py").write_text("a = 1\n")
        wait_for(workspace / "src/app/a.py")
        assert watched(workspace) == ENTERED


def test_what_git_ignores_is_watched_as_soon_as_it_does_not(workspace: Path):
    with watching(workspace) as wait_for:
        eventually(lambda: watched(workspace) == ENTERED, lambda: f"watched are {watched(workspace)}")
        (workspace / ".gitignore").write_text("src/app\n")
        wait_for(workspace / "build/out")  # reported, so that its files are read
        entered = {".", "src", "build", "build/out"}
        eventually(lambda: watched(workspace) == entered, lambda: f"watched are {watched(workspace)}")


def test_files_in_folders_that_are_new_are_reported(workspace: Path):
    with watching(workspace) as wait_for:
        for number in range(3):
            folder = workspace / f"new{number}" / "deep" / "deeper"
            folder.mkdir(parents=True)
            wait_for(folder)
            (folder / "a.py").write_text("a = 1\n")
            wait_for(folder / "a.py")


def test_a_workspace_that_was_removed_is_watched_again_when_it_is_back(
    workspace: Path, caplog: pytest.LogCaptureFixture
):
    with watching(workspace) as wait_for:
        (workspace / "src/a.py").write_text("a = 1\n")
        wait_for(workspace / "src/a.py")
        shutil.rmtree(workspace)
        wait_for(workspace / "src")
        (workspace / "src").mkdir(parents=True)
        wait_for(workspace / "src")
        (workspace / "src/a.py").write_text("a = 2\n")
        wait_for(workspace / "src/a.py")
    assert not caplog.records


@pytest.mark.parametrize(
    ("told", "remedy"),
    [
        ('OS file watch limit reached. about ["/w"]', "raise fs.inotify.max_user_watches, or open a smaller folder"),
        (
            "Error creating recommended watcher: Too many open files (os error 24)",
            "raise fs.inotify.max_user_instances",
        ),
        ("something else", "restart the server"),
    ],
)
def test_the_remedy_is_that_of_the_cause(told: str, remedy: str):
    assert _explained(OSError(told))[1].startswith(remedy)
