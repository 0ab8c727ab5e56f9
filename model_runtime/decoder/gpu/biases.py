"""Says which keys the new rows of a pass may see, as biases of xformers.

Keys of all arenas lie in one row of memory with gaps between them. A block of the bias is one span: its new rows, and
the keys of its arena, of which new row i sees all but the last `new - 1 - i`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from xformers.ops.fmha.attn_bias import (  # pyright: ignore[reportMissingTypeStubs]
    BlockDiagonalCausalWithOffsetGappyKeysMask as Bias,
)

from model_runtime.ids import Ids


class BiasBlock(NamedTuple):
    """The keys of one span: `length` slab rows from `first` on, including the keys of its `new` rows."""

    first: int
    length: int
    new: int


def bias_of(blocks: Sequence[BiasBlock], total: int, device: torch.device) -> Bias:
    """Return the bias of a pass over spans in a slab of `total` rows, with tensors on the device."""
    bias = Bias.from_seqlens(
        q_seqlen=[block.new for block in blocks],
        kv_seqstarts=[*(block.first for block in blocks), total],
        kv_seqlen=[block.length for block in blocks],
        device=device,
    )
    return cast(Bias, bias)


def bias_of_rows(starts: torch.Tensor, lengths: torch.Tensor, longest: int, total: int) -> Bias:
    """Return the bias of a pass of single rows that reads the places of their keys from int32 tensors at each use.

    `starts` [rows + 1] ends with `total`, `lengths` [rows] are at most `longest`. Several rows of one arena are
    blocks that share keys. Kernels are made for `longest` keys: they stay the same while an arena grows.
    """
    rows = len(lengths)
    bias = bias_of([BiasBlock(0, longest, 1)] * rows, total, starts.device)
    bias.k_seqinfo.seqstart, bias.k_seqinfo.seqlen = starts, lengths
    return bias


def update_bias(bias: Bias, starts: Ids, lengths: Ids) -> None:
    """Update the lists of a bias of single rows, which `materialize` reads; kernels read its tensors."""
    bias.k_seqinfo.seqstart_py[: len(starts)] = starts.tolist()
    bias.k_seqinfo.seqlen_py = lengths.tolist()
