"""Muon over matrices of equal shape at once: one by one they would be thousands of small kernels a step."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import torch
from torch import Tensor
from torch.optim import Optimizer

from efim_lab.workshop.training.autograd.precision import product_dtype
from efim_lab.workshop.training.native.muon import MOMENTUM

STEPS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # torch.optim.Muon's
LEAST_NORM = 1e-7


class StackedMuon(Optimizer):
    """Muon with the steps of torch.optim.Muon with `match_rms_adamw`, up to the rounding of bf16 or fp32."""

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take one step for the matrices that have gradients."""
        for group in self.param_groups:
            alike = dict[torch.Size, list[Tensor]]()
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in alike.items():
                self._update(matrices, 1 - group["lr"] * group["weight_decay"], group["lr"] * 0.2 * sqrt(max(shape)))

    def _update(self, matrices: list[Tensor], kept: float, size: float) -> None:
        mixed = list[Tensor]()
        for matrix in matrices:
            state, gradient = self.state[matrix], matrix.grad
            if not state:
                state["momentum_buffer"] = torch.zeros_like(matrix)
            assert gradient is not None
            mixed.append(gradient.lerp(state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM), MOMENTUM))
        for matrix, step in zip(matrices, orthogonalized(torch.stack(mixed)), strict=True):
            matrix.mul_(kept).sub_(step, alpha=size)


def orthogonalized(x: Tensor) -> Tensor:
    """Return matrices [count, rows, columns] whose singular values have been brought near 1."""
    a, b, c = QUINTIC
    x = x.to(product_dtype(x.device))
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.square().sum((-2, -1), keepdim=True, dtype=torch.float32).sqrt().clamp(min=LEAST_NORM).to(x.dtype)
    for _ in range(STEPS):
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.mT if tall else x
