"""Computes gradients by autograd, in bf16: on GPUs, on CPUs without our kernels, and of any model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class AutogradGradients:
    """Adds up the gradients of a loss over passes of at most `tokens_at_once` tokens, which bounds memory."""

    def __init__(self, loss: Callable[[Tensor], Tensor], tokens_at_once: int) -> None:
        self._loss = loss
        self._at_once = tokens_at_once

    def __call__(self, rows: Tensor) -> float:
        """Add the gradients of rows [rows, length] to those of the parameters; return the mean loss."""
        at_once = max(1, self._at_once // rows.shape[1])
        return sum(self._add(rows[at : at + at_once], len(rows)) for at in range(0, len(rows), at_once))

    def _add(self, rows: Tensor, of: int) -> float:
        with torch.autocast(rows.device.type, torch.bfloat16):
            loss = self._loss(rows) * (len(rows) / of)
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        return loss.item()
