"""The biases of the GPU path, written out, against masks made token by token; and whether its operators take them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from xformers.ops.fmha import flash, triton_splitk
from xformers.ops.fmha.common import Inputs

from model_runtime.decoder.gpu.attention import (
    BUSY_PROGRAMS,
    SPLIT_DIMS,
    BiasBlock,
    attend_materialized,
    bias_of,
    bias_of_rows,
    grouped,
    split_operator,
    update_bias,
)

CAPACITY, SLOTS, GAP = 12, 5, 3
TOTAL = CAPACITY * SLOTS + GAP
CPU = torch.device("cpu")


@st.composite
def passes(draw: st.DrawFn) -> list[BiasBlock]:
    """Spans of arenas, each another, in any order."""
    slots = draw(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True))
    blocks = list[BiasBlock]()
    for slot in slots:
        length = draw(st.integers(1, CAPACITY))
        blocks.append(BiasBlock(slot * CAPACITY, length, draw(st.integers(1, length))))
    return blocks


def seen(blocks: list[BiasBlock]) -> torch.Tensor:
    """Which slab rows each new row sees, said key by key."""
    rows = [(block, i) for block in blocks for i in range(block.new)]
    mask = torch.zeros(len(rows), TOTAL, dtype=torch.bool)
    for row, (block, i) in enumerate(rows):
        for position in range(block.length - block.new + i + 1):
            mask[row, block.first + position] = True
    return mask


def tensors(rows: int, heads: int, kv_heads: int, dim: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    q = torch.randn(rows, heads, dim, generator=generator)
    k, v = (torch.randn(TOTAL, kv_heads, dim, generator=generator) for _ in range(2))
    return q, k, v


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """Attention head by head."""
    group = q.shape[1] // k.shape[1]
    heads = [
        F.scaled_dot_product_attention(
            q[None, :, h], k[None, :, h // group], v[None, :, h // group], attn_mask=mask, scale=scale
        )[0]
        for h in range(q.shape[1])
    ]
    return torch.cat(heads, dim=1)


@settings(max_examples=60)
@given(blocks=passes(), heads=st.sampled_from([(4, 4), (4, 2), (6, 1)]))
def test_a_bias_written_out_gives_what_a_plain_mask_gives(blocks: list[BiasBlock], heads: tuple[int, int]) -> None:
    mask = seen(blocks)
    q, k, v = tensors(len(mask), *heads)
    found = attend_materialized(q, k, v, bias_of(blocks, TOTAL, CPU), 0.3)
    assert torch.allclose(found, plain(q, k, v, mask, 0.3), atol=1e-6)


@settings(max_examples=40)
@given(blocks=passes(), before=passes())
def test_rows_one_by_one_see_what_their_spans_see(blocks: list[BiasBlock], before: list[BiasBlock]) -> None:
    """One bias serves pass after pass: only what its tensors say changes."""
    rows = sum(block.new for block in blocks)
    starts = torch.full((rows + 1,), TOTAL, dtype=torch.int32)
    lengths = torch.ones(rows, dtype=torch.int32)
    bias = bias_of_rows(starts, lengths, CAPACITY, TOTAL)
    for spans in (before * rows, blocks):
        firsts, ends = _rows(spans)
        starts[:-1], lengths[:] = torch.as_tensor(firsts[:rows]), torch.as_tensor(ends[:rows])
        update_bias(bias, firsts[:rows], ends[:rows])
    assert torch.equal(bias.materialize((rows, TOTAL)) == 0, seen(blocks))
    assert bias.k_seqinfo.seqstart.data_ptr() == starts.data_ptr()
    assert bias.k_seqinfo.seqlen.data_ptr() == lengths.data_ptr()


def _rows(spans: list[BiasBlock]) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(span.first, span.length - span.new + i + 1) for span in spans for i in range(span.new)]
    firsts, lengths = np.array(pairs, dtype=np.int32).T
    return firsts, lengths


# What the operators say of our inputs. On a CPU they refuse the device; they must have no other objection.


@pytest.mark.parametrize("dim", SPLIT_DIMS)
@pytest.mark.parametrize("heads", [(12, 2), (4, 4), (8, 1)])
def test_the_operators_take_our_shapes_and_biases(dim: int, heads: tuple[int, int]) -> None:
    q, k, v = (each.half() for each in tensors(6, *heads, dim))
    q, k, v = grouped(q, k, v)
    wide = bias_of([BiasBlock(0, 7, 4), BiasBlock(24, 2, 2)], TOTAL, CPU)
    starts, lengths = torch.zeros(7, dtype=torch.int32), torch.ones(6, dtype=torch.int32)
    narrow = bias_of_rows(starts, lengths, CAPACITY, TOTAL)
    for operator, bias in ((flash.FwOp, wide), (flash.FwOp, narrow), (triton_splitk.FwOp, narrow)):
        inputs = Inputs(query=q, key=k, value=v, attn_bias=bias)
        inputs.validate_inputs()
        objections = operator.not_supported_reasons(inputs)
        assert [each for each in objections if "device=cpu" not in each and "operator" not in each] == []


def test_keys_are_grouped_without_being_copied() -> None:
    q, k, v = tensors(3, 6, 2)
    _, keys, values = grouped(q, k, v)
    assert (keys.stride(3), values.stride(3)) == (0, 0)
    assert (keys.data_ptr(), values.data_ptr()) == (k.data_ptr(), v.data_ptr())


@pytest.mark.parametrize(
    ("rows", "longest", "splits"), [(1, 4096, 64), (1, 2048, 32), (1, 64, 1), (8, 4096, 16), (64, 4096, 2)]
)
def test_keys_are_cut_until_the_device_is_busy(rows: int, longest: int, splits: int) -> None:
    found = split_operator(rows, 2, longest).SPLIT_K
    assert found == splits
    assert rows * 2 * found <= BUSY_PROGRAMS
