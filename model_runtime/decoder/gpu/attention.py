"""Attention of a pass over the slab, by one function that is chosen once: the fastest that runs here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch.nn import functional as F
from xformers.ops.fmha import (  # pyright: ignore[reportMissingTypeStubs]
    Inputs,
    flash,
    triton_splitk,
)
from xformers.ops.fmha.attn_bias import (  # pyright: ignore[reportMissingTypeStubs]
    BlockDiagonalCausalWithOffsetGappyKeysMask as Bias,
)

from model_runtime.decoder.gpu.device import GpuError
from model_runtime.decoder.gpu.slab import SPARE_ROWS, WIDTHS, Slab
from model_runtime.ids import Ids
from model_runtime.machine import describe_gpu

# q [rows, heads, dim], k and v [slab rows, kv_heads, dim], which keys are seen, scale; [rows, heads * dim]
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Bias, float], torch.Tensor]

LEAST_SPLIT_KEYS = 64  # fewest keys for one program of a split: a tile of the kernel
MOST_SPLITS = 64
BUSY_PROGRAMS = 256  # about two for each multiprocessor of an H200
SPLIT_DIMS = (16, 32, 64, 128, 256)
WIDE_ROWS = 2 * SPARE_ROWS  # of the wide pass that tries an operator
TOLERANCE = 0.05  # of the largest number: bf16 costs less than a fifth of it

logger = logging.getLogger(__name__)


class BiasBlock(NamedTuple):
    """The keys of one span: `length` slab rows from `first` on, including the keys of its `new` rows.

    Keys of all arenas lie in one row of memory with gaps between them; new row i sees all of the span's keys but the
    last `new - 1 - i`.
    """

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


class AttentionChoice(NamedTuple):
    """The function that attends, its name, and why it was chosen."""

    attend: Attend
    backend: str
    reason: str


class AttentionWay(NamedTuple):
    """An attention implementation: its name, and the reason shown if it is chosen."""

    attend: Attend
    backend: str
    remark: str


def choose_attention(slab: Slab, heads: int) -> AttentionChoice:
    """Choose xformers on a GPU if its operators run there, and torch elsewhere; GpuError if none runs."""
    if slab.k.device.type != "cuda":
        return AttentionChoice(
            attend_materialized, "scaled_dot_product_attention", "xformers has no kernel for this device"
        )
    ways = [
        AttentionWay(
            single_rows_split(attend_flash),
            "xformers flash, triton_splitK for single rows",
            "the fastest that xformers has",
        ),
        AttentionWay(attend_flash, "xformers flash", "single rows are slower"),
    ]
    return first_that_runs(ways, slab, heads, describe_gpu(slab.k.device.index))


def first_that_runs(ways: Sequence[AttentionWay], slab: Slab, heads: int, card: str) -> AttentionChoice:
    """Return the first implementation that computes right with a model's shapes, before its weights are loaded.

    Raises GpuError, which names the card, if none does.
    """
    failed = list[str]()
    for way in ways:
        why = why_not(way.attend, slab, heads)
        if why is None:
            return AttentionChoice(way.attend, way.backend, ": ".join([*failed, way.remark]))
        failed.append(f"{way.backend} cannot be used ({why})")
    raise GpuError(f"xformers has no kernel that works on {card}: {'; '.join(failed)}")


def why_not(attend: Attend, slab: Slab, heads: int, widths: Sequence[int] = WIDTHS) -> str | None:
    """Return why a way to attend cannot be used over an empty slab, or None if it can, by trying it.

    Every pass that is recorded is tried with rows of one key to as many as fit, and a wide pass. What differs from
    torch's result is as bad as what raises. Only a lack of memory is raised.
    """
    generator = torch.Generator(slab.k.device).manual_seed(0)
    keys, values = (each[0].normal_(generator=generator) for each in (slab.k, slab.v))
    try:
        for trial in [*(_single_rows(slab, rows) for rows in widths), _wide_pass(slab)]:
            shape = (sum(block.new for block in trial.blocks), heads, keys.shape[2])
            q = torch.randn(shape, generator=generator, device=keys.device).to(keys.dtype)
            found = attend(q, keys, values, trial.bias, shape[2] ** -0.5)
            if not _as_expected(found, q, keys, values, trial.blocks):
                return f"its numbers are wrong in a pass of {len(q)} rows"
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # each compiler has its own errors
        logger.info("an operator does not run on the GPU", exc_info=True)
        return describe_error(error)
    finally:
        keys.zero_()
        values.zero_()
    return None


def describe_error(error: Exception) -> str:
    """Return an error's type and the first line of its text that is not blank."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])


class _Trial(NamedTuple):
    bias: Bias
    blocks: list[BiasBlock]


def _single_rows(slab: Slab, rows: int) -> _Trial:
    """Rows with keys in other slots and of other lengths, the last one a spare row."""
    kind = slab.kinds[0]
    slots = kind.spare // kind.slot
    blocks = [BiasBlock((i % slots) * kind.slot, max(1, kind.slot * (rows - i) // rows), 1) for i in range(rows)]
    if rows > 1:
        blocks[-1] = BiasBlock(kind.rows - 1, 1, 1)
    firsts, lengths = (
        np.array(column, dtype=np.int32) for column in zip(*(block[:2] for block in blocks), strict=True)
    )
    starts = torch.as_tensor(np.append(firsts, np.int32(kind.rows))).to(slab.k.device)
    bias = bias_of_rows(starts, torch.as_tensor(lengths).to(slab.k.device), kind.longest, kind.rows)
    update_bias(bias, firsts, lengths)
    return _Trial(bias, blocks)


def _wide_pass(slab: Slab) -> _Trial:
    """New rows at the end of a slot, or as many as there is room for."""
    kind = slab.kinds[0]
    block = BiasBlock(0, kind.slot, min(WIDE_ROWS, kind.slot))
    return _Trial(bias_of([block], kind.rows, slab.k.device), [block])


def _as_expected(
    found: torch.Tensor, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, blocks: list[BiasBlock]
) -> bool:
    row, good = 0, True
    for block in blocks:
        rows, seen = slice(row, row := row + block.new), slice(block.first, block.first + block.length)
        bias = bias_of([BiasBlock(0, block.length, block.new)], block.length, q.device)
        expected = attend_materialized(
            q[rows].float(), keys[seen].float(), values[seen].float(), bias, q.shape[2] ** -0.5
        )
        off = (found[rows].float() - expected).abs().max()
        good = good and bool(off <= TOLERANCE * expected.abs().max())  # NaN is not
    return good


def attend_materialized(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
    """Attend by torch, with the bias as a tensor."""
    seen = bias.materialize((len(q), len(k)), dtype=q.dtype, device=q.device)
    one, two, three = (each.transpose(0, 1)[None] for each in (q, k, v))
    out = F.scaled_dot_product_attention(one, two, three, attn_mask=seen, scale=scale, enable_gqa=True)
    return out[0].transpose(0, 1).reshape(len(q), -1)


def attend_with(
    operator: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float
) -> torch.Tensor:
    """Attend by an operator of xformers; query heads that share a key head are a group, so keys are not repeated.

    Not by `memory_efficient_attention`, which refuses every operator if xformers' own library was built for another
    CUDA than torch. These operators need nothing of that library: one is torch's, the other Triton's.
    """
    q, k, v = grouped(q, k, v)
    out, _ = operator.apply(Inputs(query=q, key=k, value=v, attn_bias=bias, scale=scale), needs_gradient=False)
    return out.reshape(q.shape[1], -1)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return views [1, rows, kv_heads, heads of a group, dim] of all three, as xformers expects them."""
    (rows, heads, dim), (total, kv_heads, _) = q.shape, k.shape
    group = heads // kv_heads
    shape = (1, total, kv_heads, group, dim)
    return (
        q.reshape(1, rows, kv_heads, group, dim),
        k[None, :, :, None].expand(shape),
        v[None, :, :, None].expand(shape),
    )


def split_operator(rows: int, kv_heads: int, longest: int) -> Any:
    """Return the operator for single rows that splits keys into enough parts to keep the device busy."""
    splits = 1
    while (
        splits < MOST_SPLITS and rows * kv_heads * splits < BUSY_PROGRAMS and longest >= 2 * splits * LEAST_SPLIT_KEYS
    ):
        splits *= 2
    return triton_splitk.FwOp.get_operator(splits)


def attend_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
    """Attend by torch's flash attention."""
    return attend_with(flash.FwOp, q, k, v, bias, scale)


def single_rows_split(wide: Attend) -> Attend:
    """Return a function that attends single rows by split keys, and others by `wide`.

    By itself xformers would take flash for single rows, too, where few programs would read all keys. The split kernel
    pads a block of several rows to 16.
    """

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
        if bias.q_seqinfo.max_seqlen > 1:
            return wide(q, k, v, bias, scale)
        if q.shape[2] not in SPLIT_DIMS:
            raise NotImplementedError(f"triton_splitK has no kernel for a head_dim of {q.shape[2]}")
        return attend_with(split_operator(len(q), k.shape[1], bias.k_seqinfo.max_seqlen), q, k, v, bias, scale)

    return attend
