"""The computations between a layer's matrix products: pure functions that a compiler can fuse into a kernel each.

The sum over layers stays in fp32: that costs little compared with the weights, and rounding it to bf16 at every layer
would cause most of the error. Products take and return the weights' precision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch.nn import functional as F

from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS, Activation
from model_runtime.decoder.gpu import products
from model_runtime.decoder.gpu.products import ScaledProduct, scaled_product
from model_runtime.decoder.weights.layer import Norm

Turn = tuple[torch.Tensor, torch.Tensor]  # rows of `rotation_factors`


class Heads(NamedTuple):
    """The operations on heads before rotation, in fp32; None for operations that the model does not have.

    The bias [heads + 2 kv_heads, head_dim] is added to queries, keys and values; `norms` [heads + kv_heads,
    head_dim] are the weights of queries' and keys' RMS norms.
    """

    bias: torch.Tensor | None
    norms: torch.Tensor | None
    eps: float


def current_device(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which Triton's kernels, which ask for no device, run on the one of their tensors."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def apply_norm(x: torch.Tensor, norm: Norm[torch.Tensor], eps: float, dtype: torch.dtype) -> torch.Tensor:
    """Return the RMS norm of x [rows, hidden] fp32, or its layer norm if there is a bias."""
    if norm.bias is None:
        return _rms_norm(x, norm.weight, eps).to(dtype)
    return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, eps).to(dtype)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def add_and_norm(
    x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor | None, norm: Norm[torch.Tensor], eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of x, y and y's bias in fp32, and its norm in y's precision."""
    x = x + _biased(y, bias)
    return x, apply_norm(x, norm, eps, y.dtype)


def rotate_and_store(
    qkv: torch.Tensor,
    heads: Heads,
    own: torch.Tensor | None,
    turn: Turn,
    at: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Rotate queries and keys, write keys and values to their rows, and return the queries [rows, heads, dim].

    qkv [rows, heads + 2 kv_heads, dim]. `own` [rows, kv_heads, dim] is added to values. `turn` are
    rows of `rotation_factors`; `at` [rows] are rows of keys and values [slab rows, kv_heads, dim].
    """
    kv_heads, x = keys.shape[1], _biased(qkv, heads.bias)
    turning = x[:, :-kv_heads]
    if heads.norms is not None:
        turning = _rms_norm(turning, heads.norms, heads.eps)
    keys[at] = _rotated(turning[:, -kv_heads:], turn).to(qkv.dtype)
    fresh = x[:, -kv_heads:]
    values[at] = (fresh if own is None else fresh + own).to(qkv.dtype)
    return _rotated(turning[:, :-kv_heads], turn).to(qkv.dtype)


def _rotated(x: torch.Tensor, turn: Turn) -> torch.Tensor:
    """Rotate by products with each dimension and its neighbour, which fuse into one kernel, unlike joined halves."""
    neighbours = x.view(*x.shape[:2], -1, 2).flip(-1).flatten(-2)
    return x * turn[0][:, None] + neighbours * turn[1][:, None]


def rotation_factors(rotations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return factors [context, dim] of a dimension and of its neighbour, from complex rotations [context, dim / 2].

    Dimensions 2j and 2j + 1 are the parts of one number.
    """
    sin = torch.stack((-rotations.imag, rotations.imag), -1).flatten(-2)
    return rotations.real.repeat_interleave(2, -1), sin


def open_heads(seen: torch.Tensor, y: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
    """Scale the heads of seen [rows, heads * dim] by `gates` [heads, GATE_INPUTS] that read the normed y."""
    open_ = 2 * torch.sigmoid((y[:, None, :GATE_INPUTS].float() * gates).sum(-1))
    return (seen.view(len(y), len(gates), -1) * open_[..., None]).to(seen.dtype).view(len(y), -1)


def activate(up: torch.Tensor, bias: torch.Tensor | None, activation: Activation, gated: bool) -> torch.Tensor:
    """Return the activation of up [rows, size]; if gated, the activation of its first half, times the other half."""
    x = _biased(up, bias)
    gate, rest = x.chunk(2, dim=-1) if gated else (x, None)
    y = F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")
    return (y if rest is None else y * rest).to(up.dtype)


def _biased(y: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return a product in fp32 with its bias, which the product of one row would add in a separate kernel."""
    return y.float() if bias is None else y.float() + bias


AddAndNorm = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor | None, Norm[torch.Tensor], float], tuple[torch.Tensor, torch.Tensor]
]
RotateAndStore = Callable[
    [torch.Tensor, Heads, torch.Tensor | None, Turn, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor
]


class Kernels(NamedTuple):
    """The functions above and `scaled_product`, plain or compiled."""

    apply_norm: Callable[[torch.Tensor, Norm[torch.Tensor], float, torch.dtype], torch.Tensor] = apply_norm
    add_and_norm: AddAndNorm = add_and_norm
    rotate_and_store: RotateAndStore = rotate_and_store
    open_heads: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] = open_heads
    activate: Callable[[torch.Tensor, torch.Tensor | None, Activation, bool], torch.Tensor] = activate
    scaled_product: ScaledProduct = scaled_product


def compiled_kernels() -> Kernels:
    """Return each function as one kernel, compiled when it is first called with one row, and again with several."""
    fused = (torch.compile(each) for each in (apply_norm, add_and_norm, rotate_and_store, open_heads, activate))  # pyright: ignore
    return Kernels(*fused, scaled_product=products.compiled_product())  # pyright: ignore
