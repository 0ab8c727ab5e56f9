"""What a layer computes between its matrix products, as pure functions that a compiler can fuse into one kernel each.

The sum over layers is kept in fp32: it costs little beside the weights, and rounding it to bf16 at every layer would
be most of the error. Products take and give the weights' precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch.nn import functional as F


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype) -> torch.Tensor:
    """Root mean square norm of x [rows, hidden] fp32."""
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight).to(dtype)


def added(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum x + y in fp32, and its norm in y's precision."""
    x = x + y
    return x, normed(x, weight, eps, y.dtype)


def placed(
    qkv: torch.Tensor,
    bias: torch.Tensor | None,
    turn: tuple[torch.Tensor, torch.Tensor],
    at: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Rotate queries and keys, write keys and values to their rows, and return the queries [rows, heads, dim].

    qkv [rows, heads + 2 kv_heads, dim], to which the bias [the same, dim] fp32 is added here: a product of one row
    would add it in a kernel of its own. `turn` are rows of `turns`; `at` [rows] are rows of keys and values [slab
    rows, kv_heads, dim].
    """
    kv_heads, x = keys.shape[1], qkv.float()
    x = x if bias is None else x + bias
    keys[at] = _turned(x[:, -2 * kv_heads : -kv_heads], turn).to(qkv.dtype)
    values[at] = x[:, -kv_heads:].to(qkv.dtype)
    return _turned(x[:, : -2 * kv_heads], turn).to(qkv.dtype)


def _turned(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Each product takes a dimension or its neighbour, not halves that are put together: that is one kernel."""
    neighbours = x.view(*x.shape[:2], -1, 2).flip(-1).flatten(-2)
    return x * turn[0][:, None] + neighbours * turn[1][:, None]


def turns(rotations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors [context, dim] for a dimension and for its neighbour, from complex rotations [context, dim / 2].

    Dimensions 2j and 2j + 1 are the parts of one number.
    """
    sin = torch.stack((-rotations.imag, rotations.imag), -1).flatten(-2)
    return rotations.real.repeat_interleave(2, -1), sin


def gated(gate_up: torch.Tensor) -> torch.Tensor:
    """The gate's half, through silu, times the other half."""
    gate, up = gate_up.chunk(2, dim=-1)
    return (F.silu(gate.float()) * up).to(gate_up.dtype)


class Placed(Protocol):
    """What `placed` is."""

    def __call__(
        self,
        qkv: torch.Tensor,
        bias: torch.Tensor | None,
        turn: tuple[torch.Tensor, torch.Tensor],
        at: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        /,
    ) -> torch.Tensor: ...


class Parts(NamedTuple):
    """The functions above, as they are or compiled."""

    normed: Callable[[torch.Tensor, torch.Tensor, float, torch.dtype], torch.Tensor] = normed
    added: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], tuple[torch.Tensor, torch.Tensor]] = added
    placed: Placed = placed
    gated: Callable[[torch.Tensor], torch.Tensor] = gated


def compiled() -> Parts:
    """Each function as one kernel, made when it is first called with one row, and again with several."""
    return Parts(*(torch.compile(each) for each in (normed, added, placed, gated)))  # pyright: ignore
