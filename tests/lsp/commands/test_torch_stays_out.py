"""What needs no model imports no torch, which takes seconds; a wrong model, file or setting is refused before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lsp.wire import ENV, HANG

WITH_IMPORTS = {**ENV, "PYTHONPROFILEIMPORTTIME": "1"}  # a line on stderr for each import, in child processes too
TORCH = "| torch\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "efim_ls", *arguments]
    done = subprocess.run(
        command, env=WITH_IMPORTS, cwd=folder, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert "| efim_ls.cli\n" in done.stderr  # imports are listed
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file to complete, a folder that holds no model, and one without weights."""
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").mkdir()
    (tmp_path / "trace.json").write_text('{"startContent": "", "txns": []}')
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "-V",
        "--version",
        "--help",
        "complete --help",
        "stats",
        "cache ls",
        "index",
        "completion bash",
        "train --help",
        "cache",
    ],
)
def test_a_command_without_a_model_imports_no_torch(folder: Path, line: str) -> None:
    more = ["--folder", str(folder)] if line in ("stats", "cache ls", "index") else []
    done = run(folder, *line.split(), *more)
    assert done.returncode == (2 if line == "cache" else 0)
    assert TORCH not in done.stderr


@pytest.mark.parametrize(
    ("line", "status", "complaint"),
    [
        ("complete a.py:1:1 --model no/such/model/here", 1, "'no/such/model/here' is not a folder here"),
        ("complete a.py:1:1 --model empty", 1, "config.json does not exist: name a folder that holds a model"),
        ("complete bytes.py:1:1", 2, "bytes.py cannot be read as UTF-8 text"),
        ("complete none.py:1:1", 2, "none.py is not a file: check the path"),
        ("headless --model ./none", 1, "'./none' is not a folder here"),
        ("replay trace.json --model ./none", 1, "'./none' is not a folder here"),
        ("replay trace.json --model ./none --count-only", 1, "'./none' is not a folder here"),
        ("replay none.json", 2, "none.json is not a file: check the path"),
        ("eval --data . --model ./none", 1, "'./none' is not a folder here"),
        ("eval --data none.jsonl", 2, "none.jsonl cannot be read"),
        ("bench efim-paper --model ./none", 1, "'./none' is not a folder here"),
    ],
)
def test_a_mistake_is_refused_before_torch_is_imported(folder: Path, line: str, status: int, complaint: str) -> None:
    done = run(folder, *line.split())
    assert (done.returncode, done.stdout) == (status, "")
    [told] = [each for each in done.stderr.splitlines() if each.startswith("efim-ls: ")]
    assert complaint in told
    assert TORCH not in done.stderr


def test_the_doctor_refuses_a_wrong_model_before_torch_is_imported(folder: Path) -> None:
    done = run(folder, "doctor", "--model", "./none")
    assert done.returncode == 1
    assert done.stdout.startswith("does not work: './none' is not a folder here")
    assert TORCH not in done.stderr
