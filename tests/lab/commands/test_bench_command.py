"""`python -m efim_lab bench efim-paper`, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lsp.wire import ENV
from tests.models import CODE, Tiny, make
from tests.waiting import HANG


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "efim_lab", "bench", *arguments]
    return subprocess.run(command, env=ENV, capture_output=True, encoding="utf-8", timeout=HANG, check=False)


def test_the_embedded_model_serves_users_on_pythons_own_code() -> None:
    done = run("efim-paper", "--users", "2", "--rounds", "2", "--tokens", "3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    *shown, last = done.stdout.splitlines()
    found = json.loads(last)
    sizes = {"users": 2, "rounds": 2, "tokens": 3, "longest": 2560 - 3 - 35, "context": 2560, "model": "embedded"}
    assert found.items() >= sizes.items()
    assert found["longest"] / 2 * 0.6 < found["prompt_tokens"] < found["longest"]
    none, fim, efim = (scheme["reused"] for scheme in found["schemes"].values())
    assert none == 0 < fim < 0.4 < efim < 1
    assert all(scheme["latency"] > 0 and scheme["throughput"] > 0 for scheme in found["schemes"].values())
    assert shown[0].startswith("2 users x 2 rounds")
    assert [sum(line.startswith(f"│ {name} ") for line in shown) for name in found["schemes"]] == [1, 1, 1]


def test_a_model_and_code_of_ones_own(tmp_path: Path) -> None:
    make(tmp_path / "model", Tiny(context=256))
    (tmp_path / "a.py").write_text(CODE)
    named = ("--model", str(tmp_path / "model"), "--data", str(tmp_path))
    done = run("efim-paper", "--users", "3", "--rounds", "1", "--tokens", "2", *named)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"model {tmp_path / 'model'}" in done.stdout.replace("\n", "")
    assert "{" not in done.stdout


def test_a_model_with_another_ones_tokenizer_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "model", Tiny(context=256, vocabulary=300))
    (tmp_path / "a.py").write_text(CODE)
    named = ("--model", str(tmp_path / "model"), "--data", str(tmp_path))
    done = run("efim-paper", "--users", "1", "--tokens", "2", *named)
    assert (done.returncode, done.stdout) == (1, "")
    told = "tokenizer.json is another model's (the tokenizer has 400 tokens, the model 300)"
    assert done.stderr == f"python -m efim_lab: {told}: fetch the model again\n"


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--data", "empty"], 2, "empty has no code: name a heldout.jsonl or a folder of Python files"),
        (["--data", "none"], 2, "none cannot be read (No such file or directory)"),
        (
            ["--data", "short"],
            2,
            "the data has 0 texts of 1,198 tokens or more, for 16 users: name a folder with more",
        ),
        (["--tokens", "2500"], 1, "a context of 2560 tokens has no room for 2500 new ones after a prompt: lower"),
        (
            ["--model", "none"],
            1,
            "'none' is not a folder here, and models of the hub are named owner/name or owner/name@revision: name",
        ),
        (["--users", "0"], 2, "--users: expected a whole number of at least 1, got '0'"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    status: int,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "short"):
        Path(name).mkdir()
    Path("short/a.py").write_text(CODE)
    done = run("efim-paper", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("python -m efim_lab") and complaint in done.stderr and done.stderr.count("\n") == 1


def test_an_experiment_must_be_named() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "required: EXPERIMENT" in done.stderr and done.stderr.count("\n") == 1
