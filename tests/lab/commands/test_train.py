"""A minute or so of real training on a megabyte of files, killed and resumed; the server loads what comes of it.

And a fit of sureness to some typed lines.
"""

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

from efim_ls.completion.suggestions.sureness import SURENESS_FILE, embedded_sureness, read_sureness
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.processes.command_line import run
from tests.waiting import HANG, eventually

PACKAGES = ("email", "http", "json", "logging", "multiprocessing", "unittest", "urllib", "xml", "concurrent", "html")
MEGABYTE = 1_000_000

laboratory = partial(run, "efim_lab")


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
    order = ("train", "run", "--corpus", str(gathered), "--tokenizer", str(gathered), "--tokens", "0.13")
    order += ("--lines", "5", "--out", str(out))
    command = [sys.executable, "-m", "efim_lab", *order]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE)
    eventually(lambda: killed.poll() is not None or any(out.glob("checkpoint-*")), "no checkpoint is written")
    killed.kill()
    killed.communicate(timeout=HANG)  # the process that makes its rows holds the pipe as well: it has ended
    assert killed.returncode == -signal.SIGKILL

    again = laboratory(*order)
    assert again.returncode == 1 and "continue it with --resume" in again.stderr
    finished = laboratory(*order, "--resume")
    assert finished.returncode == 0, finished.stderr
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(1, len(log) + 1))
    assert log[-1]["tokens"] >= 130_000
    assert log[-1]["loss"] < log[0]["loss"] - 1
    assert (out / "export" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "exact" in (out / "export" / "README.md").read_text()

    file = tmp_path / "new.py"
    file.write_text("import os\n\n\ndef parent(path):\n    return os.pa")
    completed = run("efim_ls", "complete", f"{file}:5:17", "--json", "--model", str(out / "export"))
    assert completed.returncode == 0, completed.stderr
    answer = json.loads(completed.stdout)
    # It may well think that the line ends here: that it was asked, and said so, is what is checked.
    assert answer["costs"]["new_tokens"] > 0 and answer["reason"] in (None, "empty", "duplicate", "no fit")


def test_sureness_is_fitted_to_typed_lines(tmp_path: Path):
    for package in ("html", "json"):
        shutil.copytree(Path(sysconfig.get_path("stdlib")) / package, tmp_path / "packages" / package)
    model = tmp_path / "model"
    shutil.copytree(EMBEDDED, model)
    (model / SURENESS_FILE).unlink()
    order = ("--model", str(model), "--data", str(tmp_path / "packages"), "--lines", "4")
    fitted = laboratory("train", "sureness", *order)
    assert fitted.returncode == 0, fitted.stderr
    guess, word = read_sureness(model)
    assert any(guess) and any(word) and (guess, word) != embedded_sureness()
    found = json.loads(fitted.stdout.splitlines()[-1])
    assert 0 <= found["areas"]["guess"] <= 1 and found["levels"].keys() == {"one file", "repository"}


def test_sureness_needs_a_package_to_fit_to_and_another_to_judge_by(tmp_path: Path):
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "one.py").write_text("width = 1\nprint(width)\n")
    shutil.copytree(EMBEDDED, model := tmp_path / "model")
    (model / SURENESS_FILE).unlink()
    refused = laboratory("train", "sureness", "--model", str(model), "--data", str(tmp_path), "--lines", "1")
    assert refused.returncode == 1 and "name a folder with two or more" in refused.stderr
    assert not (model / SURENESS_FILE).exists()
