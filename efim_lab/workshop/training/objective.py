"""What the network is trained to: its loss, alone or with what each token may see, and its optimizers."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW

from efim_lab.gate.network import EfimForCausalLM
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packing import PADDING

_DECAY = 0.1  # of matrices, times the learning rate


class MakeMuon(Protocol):
    """Makes an optimizer for matrices: a Muon of ours."""

    def __call__(self, matrices: list[nn.Parameter], /, lr: float, weight_decay: float) -> torch.optim.Optimizer: ...


def loss_of(model: nn.Module, rows: Tensor, seen: Tensor | None = None) -> Tensor:
    """Return the mean cross entropy in nats of token ids [rows, length], without padding.

    `seen` [rows, 1, length, length] says which keys each query may see; without it, those are all before it.
    """
    logits = model(input_ids=rows.clamp(min=0), attention_mask=seen, use_cache=False).logits[:, :-1].float()
    return cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PADDING)


def loss_of_samples(model: nn.Module, rows: Tensor) -> Tensor:
    """Return the loss where each token sees what `masks.py` lets it see; attention takes longer than without."""
    return loss_of(model, rows, seen_by(sample_starts(rows)))


def seen_by(starts: Tensor) -> Tensor:
    """Return which keys each query may see [rows, 1, length, length], from where each begins [rows, length]."""
    places = torch.arange(starts.shape[1], device=starts.device)
    return ((places <= places[:, None]) & (places >= starts[..., None]))[:, None]


def optimizers(model: EfimForCausalLM, rate: float, muon: MakeMuon) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' products, and AdamW for look-ups, norms and gates."""
    named = list(model.named_parameters())
    matrices = [parameter for name, parameter in named if name.endswith("_proj.weight")]
    others = [parameter for name, parameter in named if not name.endswith("_proj.weight")]
    adamw = AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return [muon(matrices, lr=rate, weight_decay=_DECAY), adamw]
