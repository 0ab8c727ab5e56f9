"""Chooses the likeliest tokens on the device, so that a few numbers reach the host instead of all logits."""

from __future__ import annotations

import numpy as np
import torch

from model_runtime.decoder.any_decoder import TopTokens

MOST_LIKELIEST = 256  # tokens of a list: nearly always more than are likely
LISTED_ROWS = 16  # rows of the widest pass with lists: a decode step with the longest draft


class TopTokensTable:
    """The likeliest tokens after each of `rows` rows, as int32: n ids, then the bits of n logits and of their total.

    The table is written on the device, where a pass can be recorded with it, and fetched by one copy.
    """

    def __init__(self, rows: int, choices: int, device: torch.device) -> None:
        """Allocate the table here and there; the first `choices` tokens of the vocabulary can be chosen."""
        self._choices, self._most = choices, min(MOST_LIKELIEST, choices)
        shape = (rows, 2 * self._most + 1)
        self._device = torch.zeros(shape, dtype=torch.int32, device=device)
        self._host = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")

    def write(self, logits: torch.Tensor) -> None:
        """Choose by fp32 logits [rows, vocab]."""
        scores = logits[:, : self._choices]
        best, ids = scores.topk(self._most, dim=-1)
        total = scores.logsumexp(dim=-1, keepdim=True)
        self._device.copy_(torch.cat((ids.int(), best.view(torch.int32), total.view(torch.int32)), dim=-1))

    def fetch(self) -> None:
        """Start to copy the table to the host."""
        self._host.copy_(self._device, non_blocking=True)

    def read(self, row: int) -> TopTokens:
        """Return a row of the table that was fetched; the copy must be over."""
        words, n = self._host[row].numpy(), self._most
        ids, logits, total = words[:n], words[n:-1].view(np.float32), words[-1:].view(np.float32)
        order = np.lexsort((ids, -logits))
        return TopTokens(ids[order], logits[order], float(total[0]), self._choices)
