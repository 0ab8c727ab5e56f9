"""The training loop: steps within a time budget, resumable, for any model."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from efim_lab.training import checkpoint
from efim_lab.training.report import Reporter
from efim_lab.training.samples.stream import Batches, ShardSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule of a run; `lengths` are (share of the time at which it begins, tokens in a row).

    The rate falls to zero over the last share of the time, `decay`; with a decay of 0 the run is meant to be
    continued by others. A step's rows go through the model in passes of `tokens_at_once`, which bounds memory.
    """

    seed: int = 0
    rate: float = 3e-3
    warmup_steps: int = 60
    decay: float = 1.0
    tokens_per_step: int = 4096
    tokens_at_once: int = 4096
    lengths: tuple[tuple[float, int], ...] = ((0.0, 512), (0.6, 2048))
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Learner:
    """What is trained: the parameters that change, their optimizers, and the loss of rows of token ids."""

    trained: torch.nn.Module
    optimizers: list[torch.optim.Optimizer]
    loss: Callable[[Tensor], Tensor]


def device() -> torch.device:
    """Return the device to train on."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def worth_compiling(seconds: float) -> bool:
    """Return whether a compiler is installed and the run is long enough to regain the 40 s that compiling takes."""
    return seconds >= 300 and shutil.which("cc") is not None


class TrainingLoop:
    """One run: steps until `seconds` of training have passed."""

    def __init__(
        self,
        learner: Learner,
        schedule: Schedule,
        folder: Path,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device = device()
        self.progress = checkpoint.RunProgress()
        self._learner = learner
        self._schedule = schedule
        self.folder = folder
        self._seconds = seconds
        self._now = now

    def resume(self) -> None:
        """Continue from the newest checkpoint in the run's folder."""
        self.progress = checkpoint.resume(self.folder, self.state())

    def learn(self, source: ShardSource) -> None:
        """Train on a source's rows from the run's current position, with a log beside the checkpoints."""
        done = self.progress
        batches = Batches(source, done.shard, done.row, done.length)
        try:
            with Reporter(self.folder / "log.jsonl", done.step) as reporter:
                self.train(batches, reporter)
        finally:
            batches.close()

    def train(self, batches: Batches, reporter: Reporter) -> None:
        """Train until the time is up; save every five minutes or tenth of the time, and at the end."""
        checkpoint_every = min(300.0, self._seconds / 10)
        saved, before = self.progress.elapsed, self._now()
        while self.progress.elapsed < self._seconds:
            loss = self._step(batches)
            after = self._now()
            self.progress.elapsed, before = self.progress.elapsed + after - before, after
            reporter.step(self.progress, loss, self._seconds)
            if self.progress.elapsed - saved >= checkpoint_every:
                self.save()
                saved = self.progress.elapsed
        self.save()

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint.save(self.folder, self.state(), self.progress)

    def state(self) -> checkpoint.RunState:
        """Return what a checkpoint stores."""
        return checkpoint.RunState(self._learner.trained, self._learner.optimizers, asdict(self._schedule))

    def _step(self, batches: Batches) -> float:
        length = self._length()
        rows = torch.tensor(batches.take(self._schedule.tokens_per_step // length, length), device=self.device)
        loss = self._descend(rows)
        self.progress.step += 1
        self.progress.tokens += rows.numel()
        self.progress.shard, self.progress.row, self.progress.length = batches.shard, batches.row, length
        return loss

    def _descend(self, rows: Tensor) -> float:
        at_once = max(1, self._schedule.tokens_at_once // rows.shape[1])
        loss = sum(self._pass(rows[at : at + at_once], len(rows)) for at in range(0, len(rows), at_once))
        torch.nn.utils.clip_grad_norm_(self._learner.trained.parameters(), self._schedule.clip)
        for optimizer in self._learner.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate()
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def _pass(self, rows: Tensor, of: int) -> float:
        """Add the gradients of some of a step's rows; return their part of the step's loss."""
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self._learner.loss(rows) * (len(rows) / of)
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        return loss.item()

    def _share(self) -> float:
        return min(1.0, self.progress.elapsed / self._seconds)

    def _length(self) -> int:
        return max((start, length) for start, length in self._schedule.lengths if start <= self._share())[1]

    def _rate(self) -> float:
        warm = min(1.0, (self.progress.step + 1) / self._schedule.warmup_steps)
        falling = (1.0 - self._share()) / self._schedule.decay if self._schedule.decay else 1.0
        return self._schedule.rate * warm * min(1.0, falling)
