"""Whether a model fits into memory, what it takes, and what would fit instead."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import expected_shapes
from model_runtime.decoder.gpu.device import GPU_RESERVE, GpuFormat, gpu_unfit, most_weight_bytes, weight_bytes
from model_runtime.decoder.linear import Format
from model_runtime.errors import ModelError
from model_runtime.loading.autotune import supported_formats
from model_runtime.loading.known_models import largest_within
from model_runtime.machine import available_memory, cuda_missing

FORMAT_BYTES: dict[Format, int] = {"fp32": 4, "fp16": 2, "int8": 1}  # of a parameter
PACKING_BYTES = 8  # bytes besides for an element of the largest matrix: its parts in fp32, and these joined
GPU_FORMATS: tuple[GpuFormat, ...] = get_args(GpuFormat)
GIB = 1 << 30


class ModelSize(NamedTuple):
    """How large a model is: its parameters, those of its largest matrix, and those that stay fp32 in any format."""

    parameters: int
    matrix: int
    fixed: int = 0


class MemoryNeed(NamedTuple):
    """Bytes that a model takes: its weights in one format, its KV arenas, and what loading it takes besides."""

    form: Format
    weights: int
    kv: int
    working: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.working


def model_size(config: ModelConfig, folder: Path | None = None) -> ModelSize:
    """The size of a model of this shape; of a foreign one its folder tells."""
    if config.foreign and folder:
        from model_runtime.decoder.hf.config import hf_size

        return ModelSize(*hf_size(folder))
    sizes = [prod(shape) for shape in expected_shapes(config).values()]
    return ModelSize(sum(sizes), max(*sizes, 2 * config.hidden * config.intermediate))


def memory_need(size: ModelSize, form: Format, kv: int) -> MemoryNeed:
    """What a model takes on a CPU. Its checkpoint is mapped while it is read: the system takes that back."""
    weights = FORMAT_BYTES[form] * (size.parameters - size.fixed) + FORMAT_BYTES["fp32"] * size.fixed
    return MemoryNeed(form, weights, kv, PACKING_BYTES * size.matrix)


def usable_formats(
    config: ModelConfig, wanted: Literal["auto"] | Format, kv: int, folder: Path | None = None, soon: int = 0
) -> list[Format]:
    """The wanted formats, or of "auto" all, in which a model fits into this machine's memory; else a ModelError.

    `soon` are bytes that come free before it is loaded.
    """
    size, free, possible = model_size(config, folder), available_memory() + soon, supported_formats(config)
    asked: list[Format] = [form for form in possible if wanted in ("auto", form)]
    if not asked:
        raise ModelError(f"weights {wanted!r} cannot be used on this CPU: set weights to 'auto'")
    if fit := fitting_formats(size, asked, kv, free):
        return fit
    raise does_not_fit(size, asked, [form for form in possible if form not in asked], kv, free)


def usable_gpu_formats(size: ModelSize, kv: int, config: ModelConfig | None) -> list[GpuFormat]:
    """The formats in which a model fits into the GPU's memory, surely where its shape is not known.

    None where there is no GPU that can be used for it.
    """
    if cuda_missing() or (config and gpu_unfit(config)):
        return []
    free = torch.cuda.mem_get_info()[0] - GPU_RESERVE - kv
    taken = {
        form: weight_bytes(config, form) if config else most_weight_bytes(size.parameters, size.matrix, form)
        for form in GPU_FORMATS
    }
    return [form for form in GPU_FORMATS if taken[form] <= free]


def fitting_formats(size: ModelSize, forms: Collection[Format], kv: int, free: int) -> list[Format]:
    """Those of the formats with which a model fits into so many free bytes."""
    return [form for form in forms if memory_need(size, form, kv).total <= free]


def does_not_fit(
    size: ModelSize, forms: Collection[Format], others: Collection[Format], kv: int, free: int
) -> ModelError:
    """Why none of the formats fits, in numbers, and what would; `others` could be asked for instead."""
    least = min((memory_need(size, form, kv) for form in forms), key=lambda each: each.total)
    parts = f"{least.form} weights {_gib(least.weights)}, KV {_gib(least.kv)}, working {_gib(least.working)}"
    told = f"the model needs {_gib(least.total)} GiB of memory ({parts}) and {_gib(free)} are free here"
    if instead := fitting_formats(size, others, kv, free):
        needed = _gib(memory_need(size, instead[0], kv).total)
        return ModelError(f"{told}: set weights to {instead[0]!r}, which needs {needed}, or to 'auto'")
    return ModelError(f"{told}: {_advice(size, [*forms, *others], kv, free)}")


def _advice(size: ModelSize, forms: Collection[Format], kv: int, free: int) -> str:
    """What could be used here, judged by what this model takes for each of its parameters."""
    least = min((memory_need(size, form, kv) for form in forms), key=lambda each: each.total)
    most = size.parameters * (free - least.kv) // (least.weights + least.working)
    if (known := largest_within(most)) is None:
        return "use the embedded model, lower kv_memory_mib or end other programs"
    return f"use a model of up to {most / 1e9:.1f} billion parameters, such as {known.name}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"
