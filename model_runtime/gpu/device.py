"""Whether a model is computed on the GPU or on the CPU, and why."""

from __future__ import annotations

from math import prod
from typing import Literal, NamedTuple

import torch

from model_runtime.config import ModelConfig
from model_runtime.errors import ModelError
from model_runtime.machine import cuda_missing
from model_runtime.weights import expected_shapes

Device = Literal["auto", "cpu", "cuda"]  # what a user can ask for
BF16 = 2  # bytes
MIB = 1 << 20
RESERVE = 1024 * MIB  # for kernels, recorded passes and what a wide pass needs besides


class Choice(NamedTuple):
    """The device, and the reason for the log and `doctor`."""

    device: Literal["cpu", "cuda"]
    reason: str


def choose_device(wanted: Device, config: ModelConfig, kv_memory_mib: int) -> Choice:
    """Take the GPU where it can be used; ModelError where it was asked for and cannot."""
    if wanted == "cpu":
        return Choice("cpu", "asked for by the setting")
    reason = cuda_missing() or _unfit(config) or _too_large(config, kv_memory_mib)
    if reason is None:
        name = torch.cuda.get_device_name()
        return Choice("cuda", f"{name}, asked for by the setting" if wanted == "cuda" else f"{name} is faster")
    if wanted == "cuda":
        raise ModelError(f"the setting device asks for the GPU, but {reason}: set device to 'auto' or 'cpu'")
    return Choice("cpu", reason)


def _unfit(config: ModelConfig) -> str | None:
    if config.head_dim % 8 or config.head_dim > 256:
        return f"no kernel takes the model's head_dim of {config.head_dim}"
    return None


def _too_large(config: ModelConfig, kv_memory_mib: int) -> str | None:
    """Compare with what is free, once this process has given back what it keeps for later."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    weights = BF16 * sum(prod(shape) for shape in expected_shapes(config).values())
    needed = weights + kv_memory_mib * MIB + RESERVE
    if needed <= free:
        return None
    parts = f"weights {_mib(weights)}, kv_memory_mib {kv_memory_mib}, {_mib(RESERVE)} for computing"
    return f"the model needs {_mib(needed)} MiB of GPU memory ({parts}) and {_mib(free)} are free"


def _mib(size: int) -> int:
    return -(-size // MIB)
