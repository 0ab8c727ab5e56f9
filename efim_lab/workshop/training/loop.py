"""The training loop: steps within a budget, resumable, for any model."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.autograd.precision import product_dtype
from efim_lab.workshop.training.report import Reporter
from efim_lab.workshop.training.run.clock import StopRequest
from efim_lab.workshop.training.run.schedule import Budget, Schedule
from efim_lab.workshop.training.samples.stream import Batches, ShardSource

SAVE_EVERY = 600.0  # seconds of training between checkpoints
SAVE_SHARE = 0.1  # of the budget; a short run saves more often
SHARD_PROCESSES = {"cpu": 1, "cuda": 4}  # one makes 400,000 tokens a second, and an H200 takes 1.1 million


@dataclass(frozen=True, slots=True)
class Learner:
    """The parameters that are trained, their optimizers, and the function that computes their gradients.

    `gradients` leaves the gradients of rows of token ids in the parameters, which had none before, and returns the
    mean loss in nats per token.
    """

    trained: torch.nn.Module
    optimizers: list[torch.optim.Optimizer]
    gradients: Callable[[Tensor], float]

    def descend(self, rows: Tensor, rate: float, clip: float) -> float:
        """Take one step on rows, with gradients of at most the norm `clip`; return the mean loss."""
        loss = self.gradients(rows)
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        return loss


class AutogradGradients:
    """Gradients by autograd, of passes of at most `tokens_at_once` tokens, which bounds memory."""

    def __init__(self, loss: Callable[[Tensor], Tensor], tokens_at_once: int) -> None:
        self._loss = loss
        self._at_once = tokens_at_once

    def __call__(self, rows: Tensor) -> float:
        """Add the gradients of rows [rows, length] to the parameters' gradients; return the mean loss."""
        at_once = max(1, self._at_once // rows.shape[1])
        return sum(self._add(rows[at : at + at_once], len(rows)) for at in range(0, len(rows), at_once))

    def _add(self, rows: Tensor, of: int) -> float:
        dtype = product_dtype(rows.device)
        with torch.autocast(rows.device.type, dtype, enabled=dtype == torch.bfloat16):
            loss = self._loss(rows) * (len(rows) / of)
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        return loss.item()


AfterStep = Callable[[StopRequest], None]  # called after each step


def device() -> torch.device:
    """Return the device to train on."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def worth_compiling(seconds: float) -> bool:
    """Return whether a compiler is installed and the run is long enough to regain the 40 s that compiling takes."""
    return seconds >= 300 and shutil.which("cc") is not None


class TrainingLoop:
    """One run: steps until its budget is spent."""

    def __init__(
        self,
        learner: Learner,
        schedule: Schedule,
        folder: Path,
        budget: Budget,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device = device()
        self.progress = checkpoint.RunProgress()
        self.learner = learner
        self._schedule = schedule
        self.folder = folder
        self._budget = budget
        self._now = now

    def resume(self, start: Path | None = None) -> None:
        """Continue from the newest checkpoint in the run's folder, or from `start`, a snapshot of this run."""
        self.progress = checkpoint.resume(start or self.folder, self.state())

    def learn(self, source: ShardSource, after_step: AfterStep | None = None) -> None:
        """Train on a source's rows from the run's current position, with a log next to the checkpoints."""
        done = self.progress
        batches = Batches(source, done.shard, done.row, done.length, SHARD_PROCESSES[self.device.type])
        try:
            with Reporter(self.folder / "log.jsonl", done.step) as reporter:
                self.train(batches, reporter, after_step)
        finally:
            batches.close()

    def train(self, batches: Batches, reporter: Reporter, after_step: AfterStep | None = None) -> None:
        """Train until the budget is spent; save every ten minutes or tenth of it, on a signal, and at the end.

        SIGINT and SIGTERM take effect, as KeyboardInterrupt, once the step is done and saved.
        """
        saved = self.progress.elapsed, self.share()
        with StopRequest() as stop:
            while self.share() < 1.0:
                before = self._now()
                loss = self._step(batches)
                self.progress.elapsed += self._now() - before
                reporter.step(self.progress, loss, self.share())
                is_due = self.progress.elapsed - saved[0] >= SAVE_EVERY or self.share() - saved[1] >= SAVE_SHARE
                if is_due or stop.requested:
                    self.save()
                    saved = self.progress.elapsed, self.share()
                stop.check()
                if after_step:
                    after_step(stop)
        self.save()

    def share(self) -> float:
        """Return the share of the budget that is spent."""
        return self._budget.share(self.progress)

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint.save(self.folder, self.state(), self.progress)

    def state(self) -> checkpoint.RunState:
        """Return what a checkpoint stores."""
        return checkpoint.RunState(self.learner.trained, self.learner.optimizers, asdict(self._schedule))

    def _step(self, batches: Batches) -> float:
        length = self._schedule.length_at(self.progress, self.share())
        rows = torch.tensor(batches.take(self._schedule.rows_in_step(length), length), device=self.device)
        loss = self.learner.descend(rows, self._rate(), self._schedule.clip)
        self.progress.step += 1
        self.progress.tokens += rows.numel()
        self.progress.shard, self.progress.row, self.progress.length = batches.shard, batches.row, length
        return loss

    def _rate(self) -> float:
        return self._schedule.rate_at(self.progress, self.share())
