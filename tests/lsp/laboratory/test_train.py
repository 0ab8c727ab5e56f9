"""A minute or so of real training on a megabyte of files, killed and resumed; the server loads what comes of it."""

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import run

PACKAGES = ("email", "http", "json", "logging", "multiprocessing", "unittest", "urllib", "xml", "concurrent", "html")
MEGABYTE = 1_000_000
PATIENCE = 300.0  # seconds


laboratory = partial(run, "efim_lab", seconds=PATIENCE)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a tokenizer of a folder with about 1 MB of Python files, in one folder."""
    folder, out = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("gathered")
    for package in PACKAGES:
        shutil.copytree(Path(sysconfig.get_path("stdlib")) / package, folder / package)
    assert sum(path.stat().st_size for path in folder.rglob("*.py")) > MEGABYTE
    assert laboratory("train", "corpus", str(folder), "--out", str(out)).returncode == 0
    assert laboratory("train", "tokenizer", "--corpus", str(out), "--size", "2048", "--out", str(out)).returncode == 0
    return out


def test_a_training_is_killed_resumed_and_served(gathered: Path, tmp_path: Path):
    out = tmp_path / "run"
    order = ("train", "run", "--corpus", str(gathered), "--tokenizer", str(gathered), "--tokens", "0.2")
    order += ("--lines", "5", "--out", str(out))
    command = [sys.executable, "-m", "efim_lab", *order]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE)
    wait_until(lambda: killed.poll() is not None or any(out.glob("checkpoint-*")))
    killed.kill()
    killed.communicate(timeout=PATIENCE)  # the process that makes its rows holds the pipe as well: it has ended
    assert killed.returncode == -signal.SIGKILL

    again = laboratory(*order)
    assert again.returncode == 1 and "continue it with --resume" in again.stderr
    finished = laboratory(*order, "--resume")
    assert finished.returncode == 0, finished.stderr
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(1, len(log) + 1))
    assert log[-1]["tokens"] >= 200_000
    assert log[-1]["loss"] < log[0]["loss"] - 1
    assert (out / "export" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "exact" in (out / "export" / "README.md").read_text()

    file = tmp_path / "new.py"
    file.write_text("import os\n\n\ndef parent(path):\n    return os.pa")
    completed = run("efim_ls", "complete", f"{file}:5:17", "--json", "--model", str(out / "export"), seconds=PATIENCE)
    assert completed.returncode == 0, completed.stderr
    answer = json.loads(completed.stdout)
    # It may well think that the line ends here: that it was asked, and said so, is what is checked.
    assert answer["costs"]["new_tokens"] > 0 and answer["reason"] in (None, "empty", "duplicate", "no fit")
