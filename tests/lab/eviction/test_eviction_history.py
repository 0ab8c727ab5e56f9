"""A history of changes is read from a real repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from efim_lab.commands import main
from efim_lab.gate.errors import WorkError
from efim_lab.studies.eviction.command import common_blocks
from efim_lab.studies.eviction.history import block_names, read_history

BLOCK = 64  # bytes
FIRST = "".join(f"x{number} = {number}\n" for number in range(100))
SECOND = FIRST.replace("x50 = 50", "x50 = 51")


def git(folder: Path, *arguments: str, at: int = 1_000_000_000) -> None:
    when = {"GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": f"{at} +0000", "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, env=when | {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A file that is made, changed, removed, and one that is no source."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for at, text in enumerate((FIRST, SECOND, None), start=1):
        (folder / "image.bin").write_bytes(bytes([at]) * 999)
        path = folder / "näme.py"
        path.unlink() if text is None else path.write_text(text)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", "m", at=1_000_000_000 + at)
    return folder


def test_changes_read_what_was_and_leave_what_is(repository: Path) -> None:
    made, changed = read_history(repository)
    first, second = (block_names(text.encode()) for text in (FIRST, SECOND))
    assert made == (1_000_000_001, (), first)
    assert changed == (1_000_000_002, first, second)
    assert common_blocks(first, second) == FIRST.index("x50 = 50") // BLOCK


def test_a_file_that_is_moved_is_new(repository: Path) -> None:
    (repository / "one.py").write_text(FIRST)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "m", at=1_000_000_005)
    git(repository, "mv", "one.py", "two.py")
    git(repository, "commit", "--quiet", "--message", "m", at=1_000_000_006)
    assert read_history(repository)[-1] == (1_000_000_006, (), block_names(FIRST.encode()))


def test_a_block_is_64_bytes_and_names_those_before_it() -> None:
    text = bytes(range(64))
    assert len(block_names(text * 3 + b"rest")) == 3
    assert block_names(text + text)[1] != block_names(text)[0]


def test_a_folder_without_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="name a git repository"):
        read_history(tmp_path)


def test_a_machine_without_git_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(WorkError, match="install it"):
        read_history(repository)


def test_a_history_without_source_files_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "image.bin").write_bytes(b"1")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "m")
    with pytest.raises(WorkError, match="no change of a source file"):
        read_history(tmp_path)


def test_figures_of_all_policies_are_printed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "eviction", str(repository), "--doubled", "100"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert (figures["changes"], figures["doubled"]) == (2, 100)
    first = figures["replayed"][0]
    assert any(first["policy"] in line and f"{first['saved']:.1%}" in line for line in lines)
    assert len(figures["replayed"]) == 7 * 4
    assert set(figures["lifetimes"]) == {"5%", "10%", "25%", "50%"}
