"""Trains a model from scratch."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from efim_lab.training import checkpoint, network
from efim_lab.training.loop import Learner, Schedule, TrainingLoop, device
from efim_lab.training.samples.sample_maker import Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings(Schedule):
    """The settings of a pretraining run."""

    shape: network.Shape = field(default_factory=network.Shape)
    shares: Shares = field(default_factory=Shares)


# About 5,000 tokens a second on two cores, 25 million in an hour and a half; a data-centre GPU has time for many
# passes over the corpus, with a model that still decodes at typing speed on one core.
PLANS = {
    "cpu": TrainerSettings(),
    "cuda": TrainerSettings(
        shape=network.LARGER,
        rate=2e-3,
        warmup_steps=200,
        tokens_per_step=65536,
        tokens_at_once=65536,
        lengths=((0.0, 1024), (0.6, 2048)),
    ),
}


class Trainer(TrainingLoop):
    """A run that starts from random weights."""

    def __init__(
        self,
        settings: TrainerSettings,
        folder: Path,
        seconds: float,
        compiled: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        torch.manual_seed(settings.seed)  # pyright: ignore[reportUnknownMemberType]
        self.settings = settings
        self.model = network.build(settings.shape).to(device())  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
        self.model.train()
        compile_loss = torch.compile(dynamic=False)  # pyright: ignore[reportUnknownMemberType]
        loss = partial(compile_loss(network.loss_of) if compiled else network.loss_of, self.model)
        learner = Learner(self.model, network.optimizers(self.model, settings.rate), loss)
        super().__init__(learner, settings, folder, seconds, now)

    def start_from(self, folder: Path) -> None:
        """Start with the weights of another run's newest checkpoint and the data after its position."""
        self.progress = checkpoint.branch(folder, self.state())
