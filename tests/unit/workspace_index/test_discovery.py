"""Which files of a folder are read, and their text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace.files.discovery import (
    LARGEST_SOURCE,
    KnownFolders,
    SourceFile,
    read_source,
    readable,
    source_files,
)


def write(folder: Path, *names: str, text: str = "x = 1\n") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def found(folder: Path, **settings: object) -> list[str]:
    rules = Rules(Settings(**settings), [folder.as_uri()])  # type: ignore[arg-type]
    files = [os.path.relpath(each.path, folder) for each in source_files(folder, rules)]
    single = [each for each in all_names(folder) if readable(str(folder / each), rules, folder)]
    assert sorted(files) == sorted(single), "a single file is judged unlike the same file in a walk"
    known = KnownFolders()
    many = [each for each in all_names(folder) if readable(str(folder / each), rules, folder, known)]
    assert many == single, "many files are judged unlike each alone"
    return sorted(files)


def all_names(folder: Path) -> list[str]:
    return [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]


def source(path: Path) -> SourceFile:
    state = path.lstat()
    return SourceFile(str(path), state.st_size, state.st_mtime_ns, "python")


def test_sources_are_found_with_their_state_and_language(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "sub/b.ts")
    files = list(source_files(tmp_path, Rules(Settings())))
    assert [each.language for each in files] == ["python", "typescript"]
    assert files[0] == SourceFile(str(tmp_path / "a.py"), 6, (tmp_path / "a.py").stat().st_mtime_ns, "python")


def test_what_is_hidden_vendored_or_no_code_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.py", ".hidden.py", ".git/b.py", "node_modules/c.js", "x/site-packages/d.py", "env/pyvenv.cfg")
    write(tmp_path, "env/lib/e.py", "Vendor/f.go", "g.min.js", "h.json", "i.bin", "LICENSE", "j_pb2.py")
    assert found(tmp_path) == ["a.py"]


def test_a_size_of_nothing_or_too_much_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "empty.py", text="")
    write(tmp_path, "most.py", text="x" * LARGEST_SOURCE)
    write(tmp_path, "more.py", text="x" * (LARGEST_SOURCE + 1))
    assert found(tmp_path) == ["most.py"]


def test_the_rules_decide(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.md", "secrets.py", ".ssh/c.py", "credentials.sql", "clients/d.py", "e.go")
    assert found(tmp_path) == ["a.py", "clients/d.py", "e.go"]
    assert found(tmp_path, disabled_files=("*/clients/*",), disabled_languages=("go",)) == ["a.py", "b.md"]
    assert found(tmp_path, disabled_files=(str(tmp_path),)) == []
    assert found(tmp_path, enabled=False) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, "secret_plans.py")
    folder = tmp_path / "folder"
    write(folder, "sub/a.py")
    (folder / "circle").symlink_to(folder)
    (folder / "sub" / "up").symlink_to("..")
    (folder / "out").symlink_to(outside)
    (folder / "copy.py").symlink_to(folder / "sub" / "a.py")
    (folder / "out.py").symlink_to(outside / "secret_plans.py")
    assert found(folder) == ["sub/a.py"]
    through = tmp_path / "link"
    through.symlink_to(folder)
    assert [each.path for each in source_files(through, Rules(Settings()))] == [str(folder / "sub" / "a.py")]


def test_what_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    assert found(tmp_path) == ["a.py"]
    assert read_source(source(tmp_path / "pipe.py")) is None
    assert read_source(source(tmp_path / "folder.py")) is None
    assert read_source(SourceFile("/dev/zero", 1, 1, "python")) is None


def test_a_name_that_is_no_utf8_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    with open(os.fsencode(tmp_path) + b"/\xff.py", "w") as file:
        file.write("x")
    os.mkdir(os.fsencode(tmp_path) + b"/\xfe")
    with open(os.fsencode(tmp_path) + b"/\xfe/b.py", "w") as file:
        file.write("x")
    assert found(tmp_path) == ["a.py"]


def test_a_folder_that_is_gone_or_closed_has_no_files(tmp_path: Path) -> None:
    rules = Rules(Settings())
    assert list(source_files(tmp_path / "nothing", rules)) == []
    write(tmp_path, "a/b.py", "c/d.py")
    files = source_files(tmp_path, rules)
    assert next(files).path.endswith("a/b.py")
    (tmp_path / "c/d.py").unlink()
    (tmp_path / "c").rmdir()
    assert list(files) == []


def test_git_ignores_the_same_files(tmp_path: Path) -> None:
    """git itself is asked, about nested lists, negations, anchors and folders."""
    names = ["a.py", "b/a.py", "build/c.py", "b/build/c.py", "b/keep/d.py", "b/e_test.py", "f/e_test.py", "g/h/i.py"]
    names += ["g/j.py", "k/l.py", "k/m/l.py", "n.py", "o/p.py", "o/q.py", "x y/r.py", "sub/build.py"]
    write(tmp_path, *names)
    (tmp_path / ".gitignore").write_text("build/\n*_test.py\n/g/h\nk/*\n!k/m/\n# comment\n[\nx\\ y/\n")
    (tmp_path / "b" / ".gitignore").write_text("!e_test.py\na.py\n")
    (tmp_path / "o" / ".gitignore").write_text("*\n!q.py\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("n.py\n")
    listed = ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-standard", "*.py"]
    theirs = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    assert found(tmp_path) == sorted(filter(None, theirs))
    assert "b/e_test.py" in theirs and "o/q.py" in theirs and "k/m/l.py" in theirs and "n.py" not in theirs


def test_a_folder_inside_a_repository_obeys_the_lists_above_it(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", "src/b.py", "other/.git/HEAD", "other/b.py")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("b.py\n")
    assert found(tmp_path / "src") == ["a.py"]
    assert found(tmp_path) == ["other/b.py", "src/a.py"], "a repository of its own has its own lists"


def test_an_unreadable_or_strange_list_ignores_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b/c.py")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "b" / ".gitignore").write_bytes(b"\xff\xfe\0[a-\n!\n")
    assert found(tmp_path) == ["a.py", "b/c.py"]


def test_text_is_read_as_an_editor_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("\ufeffx = 'ä'\r\n".encode())
    assert read_source(source(path)) == "x = 'ä'\n"


@pytest.mark.parametrize(
    "content",
    [
        b"x = 1\0",
        b"x = '\xff'",
        b"x = '" + b"a" * 6000 + b"'",
        b"# Code generated by protoc. DO NOT EDIT.\nx = 1\n",
        b"// @generated by a tool\n",
        b"# This file was automatically generated\n",
    ],
)
def test_what_is_no_text_or_written_by_a_program_is_not_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    assert read_source(source(path)) == ""


def test_a_file_that_grows_while_it_is_read_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before, fdopen = source(path), os.fdopen

    def grow(*arguments: object, **options: object) -> object:
        path.open("a").write("y = 2\n")
        return fdopen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "fdopen", grow)
    assert read_source(before) is None
    monkeypatch.undo()
    assert read_source(before) == "x = 1\ny = 2\n"
    path.unlink()
    assert read_source(before) is None


def test_well_known_names_without_a_suffix_are_sources(tmp_path: Path) -> None:
    write(tmp_path, "Makefile", "docker/Dockerfile", "LICENSE", "py", ".makefile")
    languages = {os.path.basename(each.path): each.language for each in source_files(tmp_path, Rules(Settings()))}
    assert languages == {"Makefile": "makefile", "Dockerfile": "dockerfile"}
