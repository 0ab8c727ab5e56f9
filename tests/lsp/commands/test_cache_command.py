"""`efim-ls cache`, run as a user runs it, on what a server has kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from efim_ls.commands.arguments import model_name
from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from kv_store.notes import Notes
from model_runtime.cancel import NEVER
from tests.lsp.wire import ENV
from tests.models import CODE, make
from tests.processes import command_line
from tests.sized import Sized
from tests.waiting import HANG


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"))


@pytest.fixture
def cache(tmp_path: Path, model: Path) -> Path:
    """What a server has kept of two files."""
    folder = tmp_path / "cache"
    completer = serve(model, folder)
    for name, text in (("first.py", CODE), ("second file.py", CODE[::-1])):
        completer.complete(Request((tmp_path / name).as_uri(), text, 700), NEVER)
    completer.close(HANG)
    return folder


def serve(model: Path, folder: Path) -> Completer:
    """Load a model, in one format always: each has keys and values of its own, and clearing forgets the fastest."""
    settings = Sized(model=str(model), cache_folder=str(folder), max_new_tokens=4, weights="fp32")
    return Completer.load(settings, lambda *_: None)


def fetched(model: Path, cache: Path, name: str, text: str) -> int:
    completer = serve(model, cache)
    answer = completer.complete(Request((cache.parent / name).as_uri(), text, 700), NEVER)
    completer.close(HANG)
    return answer.costs.fetched


def run(*arguments: str) -> tuple[int, str]:
    done = command_line.run("efim_ls", "cache", *arguments, env={**ENV, "COLUMNS": "300"})
    return done.returncode, done.stdout + done.stderr


def test_ls_tells_models_files_and_sizes(cache: Path, model: Path) -> None:
    code, shown = run("ls", "--folder", str(cache))
    assert code == 0
    assert str(model) in shown
    [first] = [line for line in shown.splitlines() if "/first.py" in line]
    assert any("/second file.py" in line for line in shown.splitlines())
    assert " 0 " not in first


def test_ls_tells_names_with_brackets_as_they_are(tmp_path: Path, model: Path) -> None:
    completer = serve(model, tmp_path)
    for uri, text in (("file:///app/[slug]/page.py", CODE), ("file:///app/x[/b].py", CODE[::-1])):
        completer.complete(Request(uri, text, 700), NEVER)
    completer.close(HANG)
    code, shown = run("ls", "--folder", str(tmp_path))
    assert code == 0 and "/app/[slug]/page.py" in shown and "/app/x[/b].py" in shown


def test_ls_counts_files_of_which_it_has_notes_alone(cache: Path) -> None:
    [notes] = cache.glob("*/notes")
    for count, told in ((1, "and notes of 1 more file, without"), (2, "and notes of 2 more files, without")):
        Notes(notes, 1 << 20).write(count, b"{}")
        lines = run("ls", "--folder", str(cache))[1].splitlines()
        assert any(line.startswith(told) for line in lines)
        assert len([line for line in lines if "│" in line]) == 2, "rows of the two files that have tokens"


def test_the_embedded_model_has_a_name_wherever_it_is_installed(cache: Path, model: Path) -> None:
    [about] = cache.glob("*/about.json")
    assert f"{model}: " in run("ls", "--folder", str(cache))[1]
    embedded = Path("some", "python", "model_runtime", "embedded", "typescript")
    about.write_text(json.dumps({"model": str(embedded)}))
    assert run("ls", "--folder", str(cache))[1].startswith("embedded model for TypeScript: ")
    assert model_name(str(embedded / "mine")) == str(embedded / "mine")


def test_ls_of_nothing_says_so(tmp_path: Path) -> None:
    assert run("ls", "--folder", str(tmp_path)) == (0, f"nothing is cached in {tmp_path}\n")


def test_verify_finds_and_removes_what_is_damaged(cache: Path, model: Path) -> None:
    assert run("verify", "--folder", str(cache))[0] == 0
    [file] = cache.glob("*/blocks.kv")
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    code, shown = run("verify", "--folder", str(cache))
    assert code == 1 and "1 damaged (removed)" in shown
    assert run("verify", "--folder", str(cache))[0] == 0


def test_verify_tells_of_a_file_that_is_no_store(cache: Path) -> None:
    [file] = cache.glob("*/blocks.kv")
    file.write_bytes(b"something else")
    code, shown = run("verify", "--folder", str(cache))
    assert code == 1 and "cannot be used" in shown and str(file) in shown
    assert run("ls", "--folder", str(cache))[0] == 0


def test_clear_of_a_file_removes_its_blocks_and_leaves_the_others(cache: Path, model: Path) -> None:
    code, shown = run("clear", "--folder", str(cache), "--file", str(cache.parent / "second file.py"))
    assert code == 0 and "removed: " in shown and "removed: 0" not in shown
    assert "second" not in run("ls", "--folder", str(cache))[1]
    assert fetched(model, cache, "second file.py", CODE[::-1]) == 0
    assert fetched(model, cache, "first.py", CODE) > 0


def test_clear_removes_all_and_nothing_that_is_not_ours(cache: Path, model: Path) -> None:
    (cache / "mine").mkdir()
    (cache / "mine" / "file.txt").write_text("x")
    code, shown = run("clear", "--folder", str(cache))
    assert code == 0 and re.fullmatch(r"removed: (?!0\.0)\d+\.\d MB\n", shown)
    assert [path.name for path in cache.rglob("*")] == ["mine", "file.txt"]
    assert fetched(model, cache, "first.py", CODE) == 0


def test_a_running_server_goes_on_after_a_clear(cache: Path, model: Path) -> None:
    completer, uri = serve(model, cache), (cache.parent / "first.py").as_uri()
    run("clear", "--folder", str(cache))
    completer.complete(Request(uri, CODE, 900), NEVER)
    completer.close(HANG)
    assert fetched(model, cache, "first.py", CODE) > 0


def test_the_file_goes_with_clear_only(cache: Path) -> None:
    code, shown = run("ls", "--folder", str(cache), "--file", "x.py")
    assert code == 2 and "--file works with clear" in shown


def test_a_file_of_which_nothing_is_kept_is_told(cache: Path) -> None:
    code, shown = run("clear", "--folder", str(cache), "--file", "nothing.py")
    assert code == 1 and "removed: 0" in shown


def test_a_file_is_found_by_whatever_way_the_editor_took_to_it(cache: Path, model: Path) -> None:
    (cache.parent / "first.py").write_text(CODE)
    link = cache.parent / "link.py"
    link.symlink_to(cache.parent / "first.py")
    assert run("clear", "--folder", str(cache), "--file", str(link))[0] == 0
    assert fetched(model, cache, "first.py", CODE) == 0


def test_without_its_blocks_a_models_notes_are_found_all_the_same(cache: Path) -> None:
    for path in cache.glob("*/blocks.kv"):
        path.unlink()
    assert run("clear", "--folder", str(cache), "--file", str(cache.parent / "first.py"))[0] == 0
    assert len(list(cache.glob("*/notes/*"))) == 1
    assert run("ls", "--folder", str(cache))[0] == 0
