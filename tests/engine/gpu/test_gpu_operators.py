"""What the operators of xformers make of our inputs: their kernels, which need a GPU, are stood in for.

The stand-ins compute from the numbers that the kernels are given, as those are documented to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xformers.ops.fmha import flash, triton_splitk

from model_runtime.decoder.gpu.attention import (
    BiasBlock,
    attend_materialized,
    attend_with,
    bias_of,
    bias_of_rows,
    split_operator,
    update_bias,
)

CAPACITY, SLOTS = 300, 4
TOTAL = CAPACITY * SLOTS
HEADS = st.sampled_from([(6, 2), (4, 4), (8, 1)])


def tensors(rows: int, heads: int, kv_heads: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = ((rows, heads, 16), (TOTAL, kv_heads, 16), (TOTAL, kv_heads, 16))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [rows, dim] that see all keys [keys, dim]; and the logarithm of their weights' sum."""
    scores = q @ k.T * scale
    return torch.softmax(scores, dim=-1) @ v, torch.logsumexp(scores, dim=-1)


def varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor,
    k_lengths: torch.Tensor,
    q_longest: int,
    k_longest: int,
    dropout: float,
    scale: float,
    causal: bool,
    **others: object,
) -> tuple[torch.Tensor, None, None]:
    """Flash attention of several sequences, [rows, heads, dim]; causal from the bottom right."""
    assert causal and not dropout and q_longest == int(q_starts.diff().max()) and k_longest >= int(k_lengths.max())
    out, group = torch.zeros_like(q), q.shape[1] // k.shape[1]
    for block, (first, length) in enumerate(zip(k_starts.tolist(), k_lengths.tolist(), strict=False)):
        begin, end = q_starts[block], q_starts[block + 1]
        for row in range(begin, end):
            seen = slice(first, first + length - (int(end) - 1 - row))
            for head in range(q.shape[1]):
                at = (seen, head // group)
                out[row, head] = attended(q[row : row + 1, head], k[at], v[at], scale)[0][0]
    return out, None, None


class SplitKernel:
    """One program for each row, head and part of its keys; where a part has no keys, zeros that weigh nothing."""

    def __getitem__(self, grid: Callable[..., object]) -> Callable[..., None]:
        return self.run

    def run(
        self,
        Q: torch.Tensor,
        K: torch.Tensor,
        V: torch.Tensor,
        sm_scale: float,
        Out_splitK: torch.Tensor,
        LSE_splitk: torch.Tensor | None,
        Seq_len: torch.Tensor,
        Seq_starts_k: torch.Tensor,
        **others: Any,
    ) -> None:
        assert others["USE_SEQ_LEN"] and not others["IS_CAUSAL"] and others["Seq_starts_q"] is None
        size, rows = others["BLOCK_N_PER_SPLIT"], Q.shape[1]
        for z, g, h, part in np.ndindex(Q.shape[0], Q.shape[2], Q.shape[3], Out_splitK.shape[3]):
            start, end = part * size, min((part + 1) * size, int(Seq_len[z]))
            seen = slice(int(Seq_starts_k[z]) + start, int(Seq_starts_k[z]) + max(start, end))
            out, weight = attended(Q[z, :, g, h], K[0, seen, g, h], V[0, seen, g, h], sm_scale)
            Out_splitK[z, g, h, part, :rows] = out
            if LSE_splitk is not None:
                LSE_splitk[z, g, h, part] = weight


def merge(out: torch.Tensor, lse: None, parts: torch.Tensor, weights: torch.Tensor) -> None:
    """out [batch, rows, groups, heads, dim], parts [batch, groups, heads, parts, rows, dim]."""
    merged = (parts * torch.softmax(weights, dim=3)[..., None].to(parts.dtype)).sum(3)
    out.copy_(merged.permute(0, 3, 1, 2, 4))


@st.composite
def spans(draw: st.DrawFn) -> list[BiasBlock]:
    slots = draw(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=3, unique=True))
    lengths = [draw(st.integers(1, 40)) for _ in slots]
    blocks = zip(slots, lengths, strict=True)
    return [BiasBlock(slot * CAPACITY, length, draw(st.integers(1, min(5, length)))) for slot, length in blocks]


@contextmanager
def without_gpu() -> Iterator[None]:
    """Let xformers' operators compute here what their kernels would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flash.FwOp, "OPERATOR", staticmethod(varlen))
        patch.setattr(triton_splitk.FwOp, "get_kernel", SplitKernel)
        patch.setattr(triton_splitk, "merge_attentions", merge)
        yield


@settings(max_examples=25)
@given(blocks=spans(), heads=HEADS)
@without_gpu()
def test_flash_is_told_what_the_bias_says(blocks: list[BiasBlock], heads: tuple[int, int]) -> None:
    q, k, v = tensors(sum(block.new for block in blocks), *heads)
    bias = bias_of(blocks, TOTAL, q.device)
    assert torch.allclose(
        attend_with(flash.FwOp, q, k, v, bias, 0.3), attend_materialized(q, k, v, bias, 0.3), atol=1e-5
    )


rows_of_arenas = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(1, CAPACITY)), min_size=1, max_size=6)


@settings(max_examples=25)
@given(rows=rows_of_arenas, heads=HEADS, operator=st.sampled_from(["split", "whole", "flash"]))
@without_gpu()
def test_single_rows_see_what_the_tensors_say_and_nothing_that_is_only_known_on_the_host(
    rows: list[tuple[int, int]], heads: tuple[int, int], operator: str
) -> None:
    q, k, v = tensors(len(rows), *heads)
    starts = torch.full((len(rows) + 1,), TOTAL, dtype=torch.int32)
    lengths = torch.ones(len(rows), dtype=torch.int32)
    bias = bias_of_rows(starts, lengths, 512, TOTAL)
    firsts, ends = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    starts[:-1], lengths[:] = torch.as_tensor(firsts * CAPACITY), torch.as_tensor(ends)
    chosen = {
        "split": split_operator(len(rows), heads[1], 512),
        "whole": triton_splitk.FwOp.get_operator(1),
        "flash": flash.FwOp,
    }[operator]
    found = attend_with(chosen, q, k, v, bias, 0.3)
    assert operator != "split" or chosen.SPLIT_K > 1
    update_bias(bias, firsts * np.int32(CAPACITY), ends)
    assert torch.allclose(found, attend_materialized(q, k, v, bias, 0.3), atol=1e-5)
