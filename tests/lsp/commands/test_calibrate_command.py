"""`efim-ls calibrate`, as a process, on a folder of a user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from efim_ls.cli import main
from tests.lsp.wire import ENV
from tests.models import CODE
from tests.processes.command_line import run, status


def calibrate(*argv: str) -> tuple[int, str, str]:
    done = run("efim_ls", "calibrate", *argv, env=ENV)
    return done.returncode, done.stdout, done.stderr


def test_lines_are_typed_and_what_is_kept_holds_no_text(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in ("records", "entries"):
        (tmp_path / "code" / f"{name}.py").write_text(CODE.replace("record", name), "utf-8")
    code, out, err = calibrate(str(tmp_path / "code"), "--minutes", "30", "--folder", str(tmp_path / "cache"))
    assert code == 0, err
    counted, before, after, kept = out.splitlines()
    assert (
        re.fullmatch(r"2\d lines, \d+ keys", counted)
        and before.startswith("  before  ")
        and after.startswith("  after   ")
    )
    assert before.endswith("of 100 wrong") and "remove the file to undo it" in kept
    [path] = (tmp_path / "cache").rglob("*.json")
    assert str(path) in kept and "entries" not in path.read_text() and path.stat().st_size < 4096


def test_too_little_code_and_other_mistakes_have_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.py").write_text("x = 1\n", "utf-8")
    code, _, err = calibrate(str(tmp_path), "--folder", str(tmp_path / "cache"))
    assert code == 1 and "5 keys were typed, too few to tell: name a folder with more code" in err
    assert not (tmp_path / "cache").exists()
    for argv, said in (
        (["calibrate", str(tmp_path / "none")], "is not a folder: check the path"),
        (["calibrate", str(tmp_path), "--minutes", "0"], "expected a positive number of minutes"),
        (["calibrate", str(tmp_path), "--minutes", "nan"], "expected a positive number of minutes"),
        (["calibrate", str(tmp_path), "--model", "/no/such"], "/no/such"),
    ):
        assert status(main, argv) in (1, 2)
        assert said in capsys.readouterr().err
