"""What a change of machine costs: the loss after it, beside that of the same run without one."""

import email
import shutil
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from statistics import fmean

import pytest

from efim_lab.gate import network
from efim_lab.gate.documents import CodeDocument, write_documents
from efim_lab.workshop.training.report import read_log
from efim_lab.workshop.training.run.snapshot import write_snapshot
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.stream import ShardSource
from efim_lab.workshop.training.trainer import Trainer, TrainerSettings

STEP = 1024  # tokens
BEFORE, WARMUP, AFTER = 300, 15, 60  # steps; the losses of the last are compared
SETTINGS = TrainerSettings(
    shape=network.Shape(vocabulary=1000, width=64, layers=2, heads=2, kv_heads=1, head_dim=32, feed_forward=128),
    rate=1e-2,
    tokens_per_step=STEP,
    warmup_tokens=WARMUP * STEP,
    decay=0.0,
    lengths=((0.0, 128),),
)


Losses = list[float]


@dataclass(frozen=True)
class StoppedRun:
    """A run that stopped, and the losses that it has if it goes on where it was."""

    folder: Path
    source: ShardSource
    losses: Losses


def go_on(trainer: Trainer, source: ShardSource) -> Losses:
    """Train to the end of the budget; return the losses of the last steps."""
    trainer.learn(source)
    return [entry["loss"] for entry in read_log(trainer.folder / "log.jsonl")[-AFTER:]]


def trainer_of(folder: Path, steps: int) -> Trainer:
    return Trainer(replace(SETTINGS, tokens=steps * STEP), folder, compiled=False)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> StoppedRun:
    folder = tmp_path_factory.mktemp("data")
    paths = sorted(Path(email.__file__).parent.rglob("*.py"))
    documents = [CodeDocument(path.name, path.read_text(encoding="utf-8")) for path in paths]
    write_documents(folder / "train.jsonl", documents)
    bpe.save(bpe.train((d.text for d in documents), SETTINGS.shape.vocabulary), folder)
    source = ShardSource(folder / "train.jsonl", folder, characters=100_000)

    go_on(trainer_of(folder / "run", BEFORE), source)
    (folder / "run" / "manifest.json").write_text('{"languages": ["python"], "packages": []}')
    shutil.copytree(folder / "run", folder / "same")
    same = trainer_of(folder / "same", BEFORE + WARMUP + AFTER)
    same.resume()
    return StoppedRun(folder / "run", source, go_on(same, source))


def test_a_change_of_machine_costs_less_than_a_hundredth_of_the_loss(stopped: StoppedRun, tmp_path: Path):
    moved = trainer_of(tmp_path / "moved", BEFORE + WARMUP + AFTER)
    moved.resume(write_snapshot(stopped.folder, tmp_path / "snapshot"))
    losses, expected = go_on(moved, stopped.source), fmean(stopped.losses)
    assert expected < log(SETTINGS.shape.vocabulary) / 2  # it has learnt enough for a change to be felt
    assert abs(fmean(losses) - expected) < 0.01 * expected
    # Step by step, too: other rows than those that it would have seen have losses that differ by twentieths.
    apart = [abs(ours - theirs) for ours, theirs in zip(losses, stopped.losses, strict=True)]
    assert fmean(apart) < 0.02 * expected
