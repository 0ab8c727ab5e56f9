"""Decides whether a model is computed on the GPU or on the CPU, and says why."""

from __future__ import annotations

from math import prod
from typing import Literal, NamedTuple

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import expected_shapes
from model_runtime.errors import ModelError
from model_runtime.machine import cuda_missing

Device = Literal["auto", "cpu", "cuda"]  # what a user can set
GpuFormat = Literal["bf16", "int8"]  # of the weights on a GPU
BF16, INT8 = 2, 1  # bytes
MIB = 1 << 20
GPU_RESERVE = 1024 * MIB  # for kernels, recorded passes and the temporary tensors of a wide pass


class DeviceChoice(NamedTuple):
    """The device, and the reason for the log and `doctor`."""

    device: Literal["cpu", "cuda"]
    reason: str


def gpu_format(weights: str) -> GpuFormat:
    """Return the format of weights on a GPU: bf16 unless the setting asks for int8."""
    return "int8" if weights == "int8" else "bf16"


def choose_device(wanted: Device, config: ModelConfig, kv_memory_mib: int, form: GpuFormat = "bf16") -> DeviceChoice:
    """Choose the GPU if it can be used; ModelError if it was asked for and cannot."""
    if wanted == "cpu":
        return DeviceChoice("cpu", "asked for by the setting")
    reason = _why_not(config, kv_memory_mib, form)
    if reason is None:
        name = torch.cuda.get_device_name()
        return DeviceChoice("cuda", f"{name}, asked for by the setting" if wanted == "cuda" else f"{name} is faster")
    if wanted == "cuda":
        raise ModelError(
            f"the setting device asks for the GPU, but {reason}: {_instead(config, kv_memory_mib, form)}"
        )
    return DeviceChoice("cpu", reason)


def _why_not(config: ModelConfig, kv_memory_mib: int, form: GpuFormat) -> str | None:
    return cuda_missing() or gpu_unfit(config) or _too_large(config, kv_memory_mib, form)


def _instead(config: ModelConfig, kv_memory_mib: int, form: GpuFormat) -> str:
    """Return the remedy if the GPU cannot be used with this format."""
    if form == "int8" or _why_not(config, kv_memory_mib, "int8"):
        return "set device to 'auto' or 'cpu'"
    needed = _mib(needed_gpu_bytes(config, "int8", kv_memory_mib))
    return f"set weights to 'int8', which needs {needed} MiB, or device to 'auto' or 'cpu'"


def gpu_unfit(config: ModelConfig) -> str | None:
    """Return why a model of this shape cannot be computed on any GPU, or None if it can."""
    if config.foreign:
        return f"{config.family} is computed by transformers, on the CPU only"
    if config.head_dim % 8 or config.head_dim > 256:
        return f"no kernel takes the model's head_dim of {config.head_dim}"
    return None


def shares_head(config: ModelConfig) -> bool:
    """Return whether one table in the device's memory can be both embedding and head, if it is not quantized."""
    return config.tied and config.logits_scale == 1


def weight_bytes(config: ModelConfig, form: GpuFormat) -> int:
    """Return the bytes that a model's weights take on a GPU.

    With int8 all but the embedding are quantized, and a wide pass converts one matrix at a time to bf16.
    """
    c, table = config, config.vocab * config.hidden
    others = sum(prod(shape) for shape in expected_shapes(c).values()) - table + table * c.tied
    if form == "bf16":
        return BF16 * (others + table * (not shares_head(c)))
    largest = max(c.vocab, c.intermediate * (1 + c.gated), (c.heads + 2 * c.kv_heads) * c.head_dim)
    return BF16 * (table + largest * c.hidden) + INT8 * others


def most_weight_bytes(parameters: int, matrix: int, form: GpuFormat) -> int:
    """Return an upper bound of these bytes from a model's parameters and those of its largest matrix."""
    return BF16 * (parameters + matrix) if form == "bf16" else INT8 * parameters + 2 * BF16 * matrix


def needed_gpu_bytes(config: ModelConfig, form: GpuFormat, kv_memory_mib: int) -> int:
    """Return the bytes that must be free on a GPU for weights, arenas and computing."""
    return weight_bytes(config, form) + kv_memory_mib * MIB + GPU_RESERVE


def _too_large(config: ModelConfig, kv_memory_mib: int, form: GpuFormat) -> str | None:
    """Return the sizes if the model does not fit into free memory, after emptying this process' own cache of it."""
    torch.cuda.empty_cache()
    free, needed = torch.cuda.mem_get_info()[0], needed_gpu_bytes(config, form, kv_memory_mib)
    if needed <= free:
        return None
    weights = f"{form} weights {_mib(weight_bytes(config, form))}"
    parts = f"{weights}, kv_memory_mib {kv_memory_mib}, {_mib(GPU_RESERVE)} for computing"
    return f"the model needs {_mib(needed)} MiB of GPU memory ({parts}) and {_mib(free)} are free"


def _mib(size: int) -> int:
    return -(-size // MIB)
