"""Trains a model from scratch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer

from efim_lab.gate import network
from efim_lab.workshop.training import checkpoint, objective
from efim_lab.workshop.training.autograd.loss import GpuLoss, attend_masked, attend_samples
from efim_lab.workshop.training.autograd.muon import StackedMuon
from efim_lab.workshop.training.loop import AutogradGradients, Learner, TrainingLoop, device
from efim_lab.workshop.training.native import library
from efim_lab.workshop.training.native.gradients import NativeGradients, why_unfit
from efim_lab.workshop.training.native.muon import KernelMuon
from efim_lab.workshop.training.run.clock import ComputingClock
from efim_lab.workshop.training.run.other_vocabulary import fitted
from efim_lab.workshop.training.run.schedule import Schedule, TokenBudget
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.sample_maker import Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings(Schedule):
    """The settings of a pretraining run; `tokens` is its budget, which may be raised when it is resumed."""

    decay: float = 0.2
    tokens: int = 200_000_000
    shape: network.Shape = network.EMBEDDED_SHAPE
    shares: Shares = field(default_factory=Shares)


# Long steps make the optimizers cheap; 200 million tokens take a core half a day, and an H200 three minutes.
PLANS = {
    "cpu": TrainerSettings(tokens_per_step=8192, lengths=((0.0, 512), (0.7, 2560))),
    "cuda": TrainerSettings(
        rate=4e-3, warmup_tokens=4_000_000, tokens_per_step=65536, tokens_at_once=66560, lengths=((0.0, 2560),)
    ),
}


class Trainer(TrainingLoop):
    """A run that starts from random weights."""

    def __init__(
        self,
        settings: TrainerSettings,
        folder: Path,
        compiled: bool = True,
        now: Callable[[], float] | None = None,
    ) -> None:
        torch.manual_seed(settings.seed)  # pyright: ignore[reportUnknownMemberType]
        self.settings = settings
        self.model = network.build(settings.shape).to(device())
        self.model.train()
        learner = _learner(self.model, settings, compiled)
        super().__init__(learner, settings, folder, TokenBudget(settings.tokens), now or ComputingClock())

    def start_from(self, folder: Path, vocabulary: Tokenizer) -> None:
        """Branch off another run's newest checkpoint or snapshot, with the data after its position.

        `folder` may also hold a finished model, whose tokenizer need not be this run's `vocabulary`.
        """
        if not checkpoint.is_finished(folder):
            self.progress = checkpoint.branch(folder, self.state())
        else:
            weights = checkpoint.finished_weights(folder)
            self.model.load_state_dict(fitted(weights, bpe.load(folder), vocabulary))


def _learner(model: network.EfimForCausalLM, settings: TrainerSettings, compiled: bool) -> Learner:
    """Choose how to compute gradients and Muon's steps: by our kernels where the CPU can run them, else by torch."""
    if device().type == "cuda":
        loss = GpuLoss(model, attend_masked if settings.shares.repository else attend_samples, compiled)
        gradients = AutogradGradients(loss, settings.tokens_at_once)
        return Learner(model, objective.optimizers(model, settings.rate, StackedMuon), gradients)
    reason = library.why_unsupported() or why_unfit(settings.shape)
    if not reason:
        return Learner(model, objective.optimizers(model, settings.rate, KernelMuon), NativeGradients(model))
    print(f"gradients are computed by autograd: {reason}")
    compile_loss = torch.compile(dynamic=False)  # pyright: ignore[reportUnknownMemberType]
    of_rows = objective.loss_of_samples if settings.shares.repository else objective.loss_of
    loss = partial(compile_loss(of_rows) if compiled else of_rows, model)
    gradients = AutogradGradients(loss, settings.tokens_at_once)
    return Learner(model, objective.optimizers(model, settings.rate, StackedMuon), gradients)
