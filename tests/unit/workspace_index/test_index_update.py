"""An index is brought up to date with the files of a folder, and does no work twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.workspace import index as module
from efim_ls.workspace.index import Scope, WorkspaceIndex
from efim_ls.workspace.index_file import IndexFile
from tests.unit.workspace_index.conftest import TOKENIZERS, Open, has_name


class Counted:
    """The updates of one folder, and the files that each read and tokenized."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.read, self.derived = folder, list[str](), list[str]()
        read_source, content_of = module.read_source, module.content_of

        def read(file: module.SourceFile) -> str | None:
            self.read.append(os.path.relpath(file.path, folder))
            return read_source(file)

        def derive(text: str, *others: object) -> object:
            self.derived.append(text)
            return content_of(text, *others)  # type: ignore[arg-type]

        monkeypatch.setattr(module, "read_source", read)
        monkeypatch.setattr(module, "content_of", derive)

    def update(
        self, index: IndexFile, files: int | None = None, settings: Settings = DEFAULTS
    ) -> tuple[list[str], list[str]]:
        """Return which files were read, and which texts something was derived from."""
        self.read, self.derived = [], []
        scope = Scope.of(settings, Rules(settings), [self.folder], TOKENIZERS)
        for _ in WorkspaceIndex(scope, index).build():
            if len(self.read) == files:
                break
        return self.read, self.derived


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.py", "b.py", "sub/c.py"):
        (folder / name).write_text(f"name_of_{Path(name).stem} = 1\n")
    return Counted(folder, monkeypatch)


def test_what_has_not_changed_is_not_read_again(work: Counted, open_index: Open) -> None:
    index = open_index()
    assert work.update(index)[0] == ["a.py", "b.py", "sub/c.py"]
    index.close()
    again = open_index()
    assert work.update(again) == ([], [])
    (work.folder / "b.py").write_text("other = 1\n")
    assert work.update(again) == (["b.py"], ["other = 1\n"])
    assert has_name(again, "other") and not has_name(again, "name_of_b")


def test_a_file_that_was_only_touched_is_not_tokenized(work: Counted, open_index: Open) -> None:
    index = open_index()
    work.update(index)
    os.utime(work.folder / "a.py", ns=(1, 1))
    assert work.update(index) == (["a.py"], [])
    assert work.update(index) == ([], [])


def test_renames_and_copies_are_not_tokenized(work: Counted, open_index: Open) -> None:
    index = open_index()
    work.update(index)
    shutil.copy(work.folder / "a.py", work.folder / "copy.py")
    shutil.move(work.folder / "sub", work.folder / "moved")
    assert work.update(index) == (["copy.py", "moved/c.py"], [])
    names = {os.path.relpath(each, work.folder) for each in index.entries()}
    assert names == {"a.py", "b.py", "copy.py", "moved/c.py"}
    assert [os.path.relpath(each.path, work.folder) for each in index.definitions("name_of_a")] == ["a.py", "copy.py"]


def test_what_is_gone_is_removed(work: Counted, open_index: Open) -> None:
    index = open_index()
    work.update(index)
    shutil.rmtree(work.folder / "sub")
    (work.folder / "a.py").write_bytes(b"no text any more\0")
    assert work.update(index) == (["a.py"], [])
    assert {os.path.basename(each) for each in index.entries()} == {"b.py"} and not has_name(index, "name_of_c")


def test_an_update_that_was_left_is_taken_up(
    work: Counted, open_index: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOKENS_A_WRITE", 1)
    index = open_index()
    assert work.update(index, files=3)[0] == ["a.py", "b.py", "sub/c.py"]
    index.close()
    again = open_index()
    assert work.update(again)[0] == ["sub/c.py"] and len(again.entries()) == 3


def test_a_folder_that_disappears_leaves_an_empty_index(work: Counted, open_index: Open) -> None:
    index = open_index()
    work.update(index)
    shutil.rmtree(work.folder)
    assert work.update(index) == ([], []) and index.entries() == {}


THREADS = """if True:
    from pathlib import Path
    from tests.unit.workspace_index.conftest import indexed
    print(len(list(Path("/proc/self/task").iterdir())))
    indexed("/project/long.py", "name = 'some text'\\n" * 9000)
    print(len(list(Path("/proc/self/task").iterdir())))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_the_tokenizers_library_starts_no_thread() -> None:
    """It could start one for each core, once for a process."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    before, after = done.stdout.split()
    assert before == after


def test_what_a_program_wrote_is_read_once_until_it_changes_or_goes(work: Counted, open_index: Open) -> None:
    generated = work.folder / "b.py"
    generated.write_text("# @generated\nx = 1\n")
    index = open_index()
    assert work.update(index)[0] == ["a.py", "b.py", "sub/c.py"]
    index.close()
    again = open_index()
    assert work.update(again) == ([], []) and again.skipped().keys() == {str(generated)}
    generated.write_text("written_by_hand = 1\n")
    assert work.update(again)[0] == ["b.py"] and has_name(again, "written_by_hand") and again.skipped() == {}
    generated.write_text("# @generated\nx = 2\n")
    assert work.update(again)[0] == ["b.py"] and not has_name(again, "written_by_hand")
    generated.unlink()
    assert work.update(again) == ([], []) and again.skipped() == {}


def test_a_file_that_cannot_be_read_now_is_read_later(
    work: Counted, open_index: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    with monkeypatch.context() as patch:
        patch.setattr(module, "read_source", lambda file: None)
        work.update(index)
    assert index.entries() == {} and index.skipped() == {}
    assert work.update(index)[0] == ["a.py", "b.py", "sub/c.py"]


def test_not_even_the_name_of_a_private_file_is_remembered(work: Counted, open_index: Open, place: Path) -> None:
    (work.folder / "b.py").write_text("# @generated\nx = 1\n")
    index = open_index()
    work.update(index, settings=Settings(private_files=("*/b.py",)))
    index.close()
    assert not any(b"project/b.py" in each.read_bytes() for each in place.parent.iterdir())
    index = open_index()
    work.update(index)
    work.update(index, settings=Settings(disabled_files=("*/b.py",)))
    assert not any(b"project/b.py" in each.read_bytes() for each in place.parent.iterdir()), "excluded later"
