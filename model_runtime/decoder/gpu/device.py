"""Decides whether a model is computed on the GPU or on the CPU, and says why; imports torch only with a GPU."""

from __future__ import annotations

import gc
from math import prod
from typing import Literal, NamedTuple

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Experts, Full, up_outputs
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES, expected_shapes
from model_runtime.errors import ModelError
from model_runtime.machine import available_memory, cuda_missing, free_gpu_memory, gpu_name, roomiest_gpu

Device = Literal["auto", "cpu", "cuda"]  # what a user can set
GpuFormat = Literal["bf16", "int8"]  # of the weights on a GPU
BF16, INT8 = 2, 1  # bytes
MIB = 1 << 20
GPU_RESERVE = 1024 * MIB  # for kernels, recorded passes and the temporary tensors of a wide pass
# Bytes of the host's memory for each element of the largest matrix: its parts in fp32, and these joined.
CONVERTING_BYTES = 8
OTHER_DEVICE = "set device to 'auto' or 'cpu'"


class GpuError(ModelError):
    """A GPU that cannot compute a model after all: why, and what a user who asked for it can do."""

    def __init__(self, reason: str, remedy: str = OTHER_DEVICE) -> None:
        super().__init__(f"{reason}: {remedy}")
        self.reason = reason


class DeviceChoice(NamedTuple):
    """The device, the reason for the log and `doctor`, and which of the GPUs it is."""

    device: Literal["cpu", "cuda"]
    reason: str
    gpu: int = 0


class GpuNeed(NamedTuple):
    """What must be free on a GPU for a model: bytes of weights in a format, MiB of arenas, and room for computing."""

    form: GpuFormat
    weights: int
    kv_memory_mib: int

    @property
    def bytes(self) -> int:
        """All of it in bytes."""
        return self.weights + self.kv_memory_mib * MIB + GPU_RESERVE

    def beyond(self, free: int) -> str:
        """Return the sizes for a user whose GPU has only `free` bytes."""
        weights = f"{self.form} weights {_mib(self.weights)}"
        parts = f"{weights}, keys and values {self.kv_memory_mib}, {_mib(GPU_RESERVE)} for computing"
        return f"the model needs {_mib(self.bytes)} MiB of GPU memory ({parts}) and {_mib(free)} are free"


def gpu_format(weights: str) -> GpuFormat:
    """Return the format of weights on a GPU: bf16 unless the setting asks for int8, or for int4."""
    return "int8" if weights in ("int8", "int4") else "bf16"


def choose_device(wanted: Device, config: ModelConfig, kv_memory_mib: int, form: GpuFormat = "bf16") -> DeviceChoice:
    """Choose the GPU with the most free memory if it can be used; ModelError if one was asked for and none can."""
    if wanted == "cpu":
        return DeviceChoice("cpu", "asked for by the setting")
    gpu = roomiest_gpu()
    error = _unusable(config, kv_memory_mib, form, gpu)
    if error is None:
        name = gpu_name(gpu)
        reason = f"{name}, asked for by the setting" if wanted == "cuda" else f"{name} is faster"
        return DeviceChoice("cuda", reason, gpu)
    if wanted == "cuda":
        raise refused(error)
    return DeviceChoice("cpu", error.reason)


def refused(error: GpuError) -> ModelError:
    """Return the error for a user who asked for the GPU."""
    return ModelError(f"the setting device asks for the GPU, but {error}")


def _unusable(config: ModelConfig, kv_memory_mib: int, form: GpuFormat, gpu: int) -> GpuError | None:
    """Return why the GPU cannot compute the model with this format, and what would help; None if it can."""
    if reason := cuda_missing() or gpu_unfit(config):
        return GpuError(reason)
    release_unused()
    free, unconvertible = free_gpu_memory(gpu), _unconvertible(config)
    wanted, least = (GpuNeed(each, weight_bytes(config, each), kv_memory_mib) for each in (form, "int8"))
    if wanted.bytes <= free:
        return GpuError(unconvertible) if unconvertible else None
    if least.bytes > free or unconvertible:
        return GpuError(wanted.beyond(free))
    remedy = f"set weights to 'int8', which needs {_mib(least.bytes)} MiB, or device to 'auto' or 'cpu'"
    return GpuError(wanted.beyond(free), remedy)


def gpu_unfit(config: ModelConfig) -> str | None:
    """Return why a model of this shape cannot be computed on any GPU, or None if it can."""
    if config.foreign:
        return f"{config.family} is computed by transformers, on the CPU only"
    if config.altup is not None or config.scaled_residuals:
        return f"no kernel computes the layers of {config.family}"
    if not config.are_alike:
        return "the model's layers differ"
    if any(layer.early or layer.reads is not None for layer in config.layers):
        return f"no kernel shares the keys of {config.family}"
    if config.states:
        return f"no kernel computes the states of {config.family}"
    attention = config.attentions[0]
    if not isinstance(attention, Full) or attention.score_cap or attention.sinks or attention.output_gates:
        return f"no kernel computes the attention of {config.family}"
    experts = [layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts)]
    if any(config.hidden % 8 or each.intermediate % 8 for each in experts):  # grouped products read 16 bytes at once
        return "no kernel takes experts whose sizes are no multiples of 8"
    head_dim = attention.head_dim
    return f"no kernel takes the model's head_dim of {head_dim}" if head_dim % 8 or head_dim > 256 else None


def shares_head(config: ModelConfig) -> bool:
    """Return whether one table in the device's memory can be both embedding and head, if it is not quantized."""
    return config.tied and config.logits_scale == 1


def weight_bytes(config: ModelConfig, form: GpuFormat) -> int:
    """Return the bytes that a model's weights take on a GPU.

    With int8 all but experts and rows that are looked up are quantized, and a wide pass converts one matrix at a time
    to bf16.
    """
    c, table, shapes = config, config.vocab * config.hidden, expected_shapes(config)
    experts = sum(3 * each.mlp.count * each.mlp.intermediate for each in c.layers if isinstance(each.mlp, Experts))
    values = prod(shapes.get(TOKEN_VALUES, (0,))) + experts * c.hidden
    others = sum(map(prod, shapes.values())) - table + table * c.tied - values
    if form == "bf16":
        return BF16 * (others + table * (not shares_head(c)) + values)
    attention = c.full
    qkv = (attention.heads + 2 * attention.kv_heads) * attention.head_dim
    largest = max(c.vocab, _up_outputs(c), qkv)
    return BF16 * (table + values + largest * c.hidden) + INT8 * others


def most_weight_bytes(parameters: int, matrix: int, form: GpuFormat) -> int:
    """Return an upper bound of these bytes from the counts of a model's and its largest matrix's parameters."""
    return BF16 * (parameters + matrix) if form == "bf16" else INT8 * parameters + 2 * BF16 * matrix


def release_unused() -> None:
    """Return to the GPU what this process holds without need: models that are dropped, and torch's own cache."""
    import torch

    gc.collect()  # a decoder and its recorded passes refer to each other
    torch.cuda.empty_cache()


def _unconvertible(config: ModelConfig) -> str | None:
    """Return the sizes if the host has too little memory to convert one matrix after the other."""
    largest = max(config.vocab, _up_outputs(config)) * config.hidden
    free, needed = available_memory(), CONVERTING_BYTES * largest
    if needed <= free:
        return None
    return f"converting the weights needs {_mib(needed)} MiB of memory and {_mib(free)} are free"


def _up_outputs(config: ModelConfig) -> int:
    """Return the outputs of the matrices in front of a feed-forward part or an expert, which are joined."""
    return max(up_outputs(layer.mlp) for layer in set(config.layers))


def _mib(size: int) -> int:
    return -(-size // MIB)
