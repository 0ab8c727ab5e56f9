"""A run of a tiny model: twelve steps, each of which takes a second by its clock."""

import itertools
from pathlib import Path

from efim_lab.gate import network
from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.report import Reporter
from efim_lab.workshop.training.samples.stream import Batches, ShardSource
from efim_lab.workshop.training.trainer import Trainer, TrainerSettings

SHAPE = network.Shape(vocabulary=500, width=32, layers=1, heads=2, kv_heads=1, head_dim=16, feed_forward=48)
STEPS, STEP = 12, 256
SETTINGS = TrainerSettings(
    shape=SHAPE,
    warmup_tokens=2 * STEP,
    tokens_per_step=STEP,
    lengths=((0.0, 64), (0.5, 128)),
    tokens=STEPS * STEP,
    decay=1.0,
)


def a_trainer(folder: Path, settings: TrainerSettings = SETTINGS) -> Trainer:
    """Each step takes one second by its clock."""
    ticks = itertools.count()
    return Trainer(settings, folder, compiled=False, now=lambda: float(next(ticks)))


def train(some: Trainer, source: Path, folder: Path, reporter: type[Reporter] = Reporter) -> None:
    done = some.progress
    batches = Batches(
        ShardSource(source / "train.jsonl", source, characters=10_000), done.shard, done.row, done.length
    )
    try:
        with reporter(folder / "log.jsonl", done.step) as report:
            some.train(batches, report)
    finally:
        batches.close()


class Interrupted(Reporter):
    def step(self, progress: checkpoint.RunProgress, loss: float, share: float) -> None:
        super().step(progress, loss, share)
        if progress.step == STEPS // 2:
            raise KeyboardInterrupt
