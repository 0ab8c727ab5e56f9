"""A run that is told to stop, as a real process: it ends its step and writes a checkpoint, from which it resumes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.report import read_log
from efim_lab.workshop.training.run.clock import StopRequest
from tests.waiting import HANG, eventually

STEP = 1024  # tokens: those of a run on a CPU are eight times as many, which take seconds
PROGRAM = f"""
import sys
from dataclasses import replace
from efim_lab.commands import main
from efim_lab.workshop.training import pretraining
plan = replace(pretraining.PLANS["cpu"], tokens_per_step={STEP}, lengths=((0.0, 256),))
pretraining.PLANS = dict.fromkeys(pretraining.PLANS, plan)
sys.exit(main())
"""

Command = list[str]


@pytest.fixture
def command(gathered: Path, tmp_path: Path) -> Command:
    words = ("--corpus", gathered, "--tokenizer", gathered, "--out", tmp_path / "run", "--lines", 0, "--tokens")
    return [sys.executable, "-c", PROGRAM, "train", "run", *map(str, words)]


@contextmanager
def started(command: Command, log: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a run; it has made a step and is in the midst of the next."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", env=environment) as process:
        try:
            eventually(
                lambda: process.poll() is not None or (log.exists() and bool(read_log(log))), "no step is made"
            )
            yield process
        finally:
            process.kill()


def stopped_by(number: signal.Signals, command: Command, run: Path) -> dict[str, int]:
    """Send a signal to a run, and return the progress in the checkpoint that it then writes."""
    with started([*command, "1"], run / "log.jsonl") as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=HANG)
    assert (process.returncode, errors.splitlines()) == (
        130,
        ["stopped: continue a run from its last checkpoint with --resume"],
    )
    (last,) = checkpoint.found(run)
    progress = json.loads((last / "run.json").read_text())["progress"]
    assert progress["step"] == read_log(run / "log.jsonl")[-1]["step"]  # not one step is lost
    return progress


def test_a_run_that_is_interrupted_writes_a_checkpoint(command: Command, tmp_path: Path):
    stopped_by(signal.SIGINT, command, tmp_path / "run")


def test_a_run_that_is_told_to_stop_writes_a_checkpoint_and_resumes(command: Command, tmp_path: Path):
    run = tmp_path / "run"
    progress = stopped_by(signal.SIGTERM, command, run)
    tokens = progress["tokens"] + STEP
    again = subprocess.run([*command, str(tokens / 1e6), "--resume"], capture_output=True, timeout=HANG)
    assert again.returncode == 0, again.stderr
    log = read_log(run / "log.jsonl")
    assert [entry["step"] for entry in log] == list(range(1, progress["step"] + 2)) and log[-1]["tokens"] == tokens
    assert (run / "export" / "model.safetensors").exists()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt, even if the shell that started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_a_second_signal_interrupts_at_once():
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
