"""Muon with our kernel: a matrix is one call, and threads share the matrices."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from threading import local

import torch
from torch import Tensor
from torch.optim import Optimizer

from efim_lab.workshop.training.native.library import addresses, library

MOMENTUM = 0.95


class KernelMuon(Optimizer):
    """Muon for matrices whose sizes are multiples of 32, with the update's size matched to AdamW's.

    Its steps equal the steps of torch.optim.Muon with `match_rms_adamw`, up to the rounding of bf16.
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self._pool = ThreadPoolExecutor(torch.get_num_threads(), "muon")
        self._own = local()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take one step for the matrices that have gradients."""
        for group in self.param_groups:
            matrices: list[Tensor] = [each for each in group["params"] if each.grad is not None]
            rate, decay = group["lr"], group["weight_decay"]
            list(self._pool.map(partial(self._update, rate, decay), sorted(matrices, key=_size)))

    def _update(self, rate: float, decay: float, matrix: Tensor) -> None:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        assert matrix.grad is not None
        rows, columns = matrix.shape
        factors = MOMENTUM, 1 - rate * decay, rate * 0.2 * sqrt(max(rows, columns))
        gradient, buffer = matrix.grad.contiguous(), state["momentum_buffer"]
        scratch = self._scratch(library().train_muon_scratch(rows, columns))
        library().train_muon(rows, columns, *factors, *addresses(gradient, buffer, matrix, scratch))

    def _scratch(self, size: int) -> Tensor:
        """Return at least as many bytes, which belong to the thread."""
        if getattr(self._own, "scratch", None) is None or len(self._own.scratch) < size:
            self._own.scratch = torch.empty(size, dtype=torch.uint8)
        return self._own.scratch


def _size(matrix: Tensor) -> int:
    """The largest come first, so that no thread is left alone with one at the end."""
    return -matrix.numel()
