"""What a disk can do to an index: each is reported once, and the index is made again or kept in memory."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from efim_ls.workspace import index_file as module
from efim_ls.workspace.database.origin import remove_index
from efim_ls.workspace.files.content import digest_of
from efim_ls.workspace.index_file import IndexFile
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZER, TOKENIZERS, Open, has_name, indexed
from tests.waiting import HANG

TEXT = "".join(f"def function_{n}(argument):\n    return argument + {n}\n" for n in range(300))
OTHER = "other_name = 1\n"
FILES = [indexed(f"/project/{n}.py", f"# {n}\n{TEXT}") for n in range(8)]
DAMAGED = "was damaged"
IN_MEMORY = "works on with an index in memory"


def check_it_works(index: IndexFile) -> None:
    """It takes files and finds them, wherever it keeps them."""
    index.put([indexed("/project/other.py", OTHER)])
    assert has_name(index, "other_name") and "/project/other.py" in index.entries()
    assert [ids.tolist() for _, ids in index.ids([digest_of(OTHER)])] == [TOKENIZER.encode(OTHER).tolist()]
    index.remove(["/project/other.py"], for_good=True)
    assert not has_name(index, "other_name") and "/project/other.py" not in index.entries()


def check_all(index: IndexFile) -> None:
    """Whatever it has is right."""
    known = {each.digest: each for each in FILES}
    for path, entry in index.entries().items():
        assert known[entry.digest].file.path == path
    for digest, ids in index.ids(list(known)):
        content = known[digest].content
        assert content and ids.tolist() == content.ids.tolist()
    for question in (index.definitions, lambda name: index.similar([name], 3)):
        question("function_7")
    index.outline("/project/1.py")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for at in range(50, len(content), 100):
        content[at] ^= 0xFF
    path.write_bytes(content)


def flip_in_ids(path: Path) -> None:
    """Flip a byte that SQLite does not look at."""
    content = bytearray(path.read_bytes())
    part = FILES[0].content
    assert part
    at = content.find(part.ids[50:80].astype("<u2").tobytes())
    assert at > 0
    content[at] ^= 1
    path.write_bytes(content)


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE files (name TEXT)")


def other_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "every 100th byte": flip,
    "token ids": flip_in_ids,
    "cut to a half": lambda path: os.truncate(path, path.stat().st_size // 2 // 4096 * 4096),
    "cut within a page": lambda path: os.truncate(path, 5000),
    "cut within the header": lambda path: os.truncate(path, 50),
    "a text": lambda path: path.write_text("not a database, but long enough to be taken for one\n" * 100),
    "another application's": foreign,
    "another version": other_version,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_made_again(
    damage: Callable[[Path], object], place: Path, open_index: Open, reports: list[str]
) -> None:
    first = open_index()
    first.put(FILES)
    first.close()
    damage(place)
    index = open_index()
    check_all(index)
    assert len(reports) == 1 and DAMAGED in reports[0]
    check_it_works(index)
    index.close()
    check_it_works(open_index())
    assert len(reports) == 1 and place.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["every 100th byte", "token ids", "cut to a half", "cut within a page"])
def test_a_file_that_is_damaged_while_it_is_open(
    name: str, place: Path, open_index: Open, reports: list[str]
) -> None:
    index = open_index()
    index.put(FILES)
    with closing(sqlite3.connect(place)) as other:  # what is still in the log would hide the damage
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    DAMAGES[name](place)
    check_all(index)
    index.put(FILES)
    check_all(index)
    index.put(FILES)
    check_all(index)
    check_it_works(index)
    assert len(set(reports)) == len(reports) <= 1 or all(DAMAGED in each for each in reports)
    assert index.generation >= (name != "every 100th byte")


def test_a_file_that_another_process_removes_is_made_again(place: Path, open_index: Open, reports: list[str]) -> None:
    index = open_index()
    index.put(FILES)
    remove_index(place)
    index.put([indexed("/project/other.py", OTHER)])
    assert index.entries().keys() == {"/project/other.py"} and index.generation == 1 and reports == []
    assert place.stat().st_mode & 0o777 == 0o600


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Let no file grow beyond a size: a write gets EFBIG, which SQLite takes as it takes ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_done_without(place: Path, open_index: Open, reports: list[str]) -> None:
    index = open_index()
    index.put(FILES[:2])
    size = sum(each.stat().st_size for each in place.parent.iterdir())
    with full_disk(size):
        for each in FILES[2:]:
            index.put([each])
        assert index.entries().keys() == {each.file.path for each in FILES}
        check_all(index)
        check_it_works(index)
    [report] = reports
    assert IN_MEMORY in report
    index.close()
    assert index.entries() == {}


def test_the_disk_is_used_again_once_it_has_room(
    open_index: Open, reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    with full_disk(4096):
        index.put(FILES)
    monkeypatch.setattr(module, "monotonic", lambda: 1e12)
    index.put(FILES)
    index.close()
    assert len(open_index().entries()) == len(FILES) and len(reports) == 1


def test_a_page_limit_is_a_full_disk(open_index: Open, reports: list[str]) -> None:
    index = open_index()
    kept = index._kept  # pyright: ignore[reportPrivateUsage]
    assert kept
    kept.tables.connection.execute("PRAGMA max_page_count = 40")
    index.put(FILES)
    assert len(index.entries()) == len(FILES) and has_name(index, "function_7")
    [report] = reports
    assert "full" in report and IN_MEMORY in report


def test_what_cannot_be_removed_from_a_full_disk_goes_with_the_whole_file(place: Path, open_index: Open) -> None:
    index = open_index()
    index.put(FILES)
    with full_disk(4096):
        index.remove(["/project/1.py"], for_good=True)
        assert not place.exists() or place.stat().st_size <= 4096
    assert "/project/1.py" not in index.entries() and index.generation == 1


@pytest.mark.parametrize("kind", ["a folder in its place", "a folder in place of its log", "no folder"])
def test_a_place_that_cannot_be_used_is_done_without(
    kind: str, place: Path, open_index: Open, reports: list[str]
) -> None:
    if kind == "no folder":
        place.parent.parent.write_text("a file")
    else:
        Path(f"{place}-wal" if "log" in kind else place).mkdir(parents=True)
    index = open_index()
    check_it_works(index)
    index.put(FILES)
    check_all(index)
    assert len(index.entries()) == len(FILES)
    [report] = reports
    assert IN_MEMORY in report


def test_a_folder_that_is_read_only_is_done_without(tmp_path: Path) -> None:
    """In a process without root's rights, which ignore modes."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    script = """if True:
        import os, sys
        from tests.unit.workspace_index import conftest as c
        if os.getuid() == 0:
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        reports = []
        path = c.Path(sys.argv[1]) / "repositories" / "index.sqlite3"
        index = c.IndexFile(path, c.ORIGIN, c.TOKENIZERS, reports.append, keeps="passages")
        index.put([c.indexed("/project/a.py", "name = 1")])
        print(bool(index.similar(["name"], 1)), len(reports), reports)
    """
    for each in tmp_path.parents[:2]:  # pytest's own folders, which only their owner may enter
        each.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("True 1 "), done.stdout + done.stderr
    assert IN_MEMORY in done.stdout


def test_another_process_that_writes_long_is_waited_for_or_done_without(
    place: Path, open_index: Open, reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRAGMAS", ("busy_timeout = 1", *module.PRAGMAS[1:]))
    index = open_index()
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        index.put(FILES)
        check_all(index)
        assert len(index.entries()) == len(FILES)
    [report] = reports
    assert IN_MEMORY in report


PUTS = """if True:
    import sys
    from tests.unit.workspace_index import conftest as c
    index = c.IndexFile(c.Path(sys.argv[1]), c.ORIGIN, c.TOKENIZERS, print, keeps="passages")
    first = int(sys.argv[2])
    print("ready", flush=True)
    for n in range(100):
        index.put([c.indexed(f"/project/{first + n % 7}.py", f"value_{first}_{n} = {n}\\n" * 50)])
    index.close()
"""


def test_two_processes_write_at_once(place: Path, open_index: Open, reports: list[str]) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PUTS, str(place), str(first)], stdout=subprocess.PIPE, text=True)
        for first in (0, 100)
    ]
    shown = [each.communicate(timeout=HANG)[0] for each in processes]
    assert shown == ["ready\n"] * 2 and [each.returncode for each in processes] == [0, 0]
    index = open_index()
    assert len(index.entries()) == 14 and reports == []
    assert has_name(index, "value_100_99") and not has_name(index, "value_100_3")


def test_several_open_a_new_index_at_the_same_instant(tmp_path: Path, reports: list[str]) -> None:
    openers, rounds = 3, 30
    together = Barrier(openers, timeout=HANG)

    def open_all(_: int) -> None:
        for number in range(rounds):
            together.wait()
            IndexFile(tmp_path / f"{number}.sqlite", ORIGIN, TOKENIZERS, reports.append, keeps="passages").close()

    with ThreadPoolExecutor(openers) as pool:
        list(pool.map(open_all, range(openers)))
    assert reports == []
