"""Which keys the new rows of a pass may see, in the words of xformers.

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
    """The keys of one span, from slab row `first` on, `length` of them with those of its `new` rows."""

    first: int
    length: int
    new: int


def bias_of(blocks: Sequence[BiasBlock], total: int, device: torch.device) -> Bias:
    """The bias of a pass over spans in a slab of `total` rows; its tensors are on the device."""
    bias = Bias.from_seqlens(
        q_seqlen=[block.new for block in blocks],
        kv_seqstarts=[*(block.first for block in blocks), total],
        kv_seqlen=[block.length for block in blocks],
        device=device,
    )
    return cast(Bias, bias)


def bias_of_rows(starts: torch.Tensor, lengths: torch.Tensor, longest: int, total: int) -> Bias:
    """The bias of a pass of single rows, which reads where their keys are from int32 tensors whenever it is used.

    `starts` [rows + 1] ends with `total`, `lengths` [rows] are at most `longest`. Several rows of one arena are
    blocks that share keys. Kernels are made for `longest` keys: they stay the same while an arena grows.
    """
    rows = len(lengths)
    bias = bias_of([BiasBlock(0, longest, 1)] * rows, total, starts.device)
    bias.k_seqinfo.seqstart, bias.k_seqinfo.seqlen = starts, lengths
    return bias


def update_bias(bias: Bias, starts: Ids, lengths: Ids) -> None:
    """Tell a bias of single rows what its tensors will say: kernels read those, `materialize` its lists."""
    bias.k_seqinfo.seqstart_py[: len(starts)] = starts.tolist()
    bias.k_seqinfo.seqlen_py = lengths.tolist()
