"""Trains a model within a time budget, resumably, on the CPU or on a CUDA device."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from model_runtime.training import checkpoint, network
from model_runtime.training.report import Reporter
from model_runtime.training.samples import Shares
from model_runtime.training.stream import Batches


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run trains; `lengths` are (share of the time from which on, tokens in a row).

    The rate falls to zero over the last part of the time, `decay`; a run with a decay of 0 is made to be gone on
    from by others.
    """

    shape: network.Shape = field(default_factory=network.Shape)
    shares: Shares = field(default_factory=Shares)
    seed: int = 0
    rate: float = 3e-3
    warmup_steps: int = 60
    decay: float = 1.0
    tokens_per_step: int = 4096
    lengths: tuple[tuple[float, int], ...] = ((0.0, 512), (0.6, 2048))
    clip: float = 1.0


# About 5,000 tokens a second on two cores, 25 million in an hour and a half; a data-centre GPU has time for many
# passes over the corpus, with a model that still decodes at typing speed on one core.
PLANS = {
    "cpu": Settings(),
    "cuda": Settings(
        network.LARGER, rate=2e-3, warmup_steps=200, tokens_per_step=65536, lengths=((0.0, 1024), (0.6, 2048))
    ),
}


def device() -> torch.device:
    """The device to train on."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    """One run: steps until `seconds` of training have passed."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        seconds: float,
        compiled: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        torch.manual_seed(settings.seed)  # pyright: ignore[reportUnknownMemberType]
        self.settings = settings
        self.device = device()
        self.model = network.build(settings.shape).to(self.device)  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        self.progress = checkpoint.Progress()
        self._folder = folder
        self._seconds = seconds
        self._now = now
        self._optimizers = network.optimizers(self.model, settings.rate)
        compile_loss = torch.compile(dynamic=False)  # pyright: ignore[reportUnknownMemberType]
        self._loss = compile_loss(network.loss_of) if compiled else network.loss_of

    def resume(self) -> None:
        """Go on from the newest checkpoint of the run's folder."""
        self.progress = checkpoint.resume(self._folder, self._run())

    def start_from(self, folder: Path) -> None:
        """Begin with the weights of another run's newest checkpoint, behind its place in the data."""
        self.progress = checkpoint.branch(folder, self._run())

    def train(self, batches: Batches, reporter: Reporter) -> None:
        """Train until the time is used up; a checkpoint every five minutes or tenth of the time, and at the end."""
        self.model.train()
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
        checkpoint.save(self._folder, self._run(), self.progress)

    def _run(self) -> checkpoint.Run:
        return checkpoint.Run(self.model, self._optimizers, asdict(self.settings))

    def _step(self, batches: Batches) -> float:
        length = self._length()
        rows = torch.tensor(batches.take(self.settings.tokens_per_step // length, length), device=self.device)
        loss = self._descend(rows)
        self.progress.step += 1
        self.progress.tokens += rows.numel()
        self.progress.shard, self.progress.row, self.progress.length = batches.shard, batches.row, length
        return loss

    def _descend(self, rows: Tensor) -> float:
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self._loss(self.model, rows)
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    def _share(self) -> float:
        return min(1.0, self.progress.elapsed / self._seconds)

    def _length(self) -> int:
        return max((start, length) for start, length in self.settings.lengths if start <= self._share())[1]

    def _rate(self) -> float:
        warm = min(1.0, (self.progress.step + 1) / self.settings.warmup_steps)
        falling = (1.0 - self._share()) / self.settings.decay if self.settings.decay else 1.0
        return self.settings.rate * warm * min(1.0, falling)
