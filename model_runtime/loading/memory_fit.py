"""Whether a model fits into memory, what it takes, and what would fit instead."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import expected_shapes
from model_runtime.decoder.gpu.device import RESERVE, Form, most_weight_bytes, unfit, weight_bytes
from model_runtime.decoder.linear import Format
from model_runtime.errors import ModelError
from model_runtime.loading.autotune import formats
from model_runtime.loading.known_models import largest_within
from model_runtime.machine import available_memory, cuda_missing

BYTES: dict[Format, int] = {"fp32": 4, "fp16": 2, "int8": 1}  # of a parameter
PACKING = 8  # bytes besides for an element of the largest matrix: its parts in fp32, and these joined
GPU_FORMS: tuple[Form, ...] = get_args(Form)
GIB = 1 << 30


class Size(NamedTuple):
    """How large a model is: its parameters, those of its largest matrix, and those that stay fp32 in any format."""

    parameters: int
    matrix: int
    fixed: int = 0


class Need(NamedTuple):
    """Bytes that a model takes: its weights in one format, its KV arenas, and what loading it takes besides."""

    form: Format
    weights: int
    kv: int
    working: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.working


def size_of(config: ModelConfig, folder: Path | None = None) -> Size:
    """The size of a model of this shape; of a foreign one its folder tells."""
    if config.foreign and folder:
        from model_runtime.decoder.hf.config import foreign_size

        return Size(*foreign_size(folder))
    sizes = [prod(shape) for shape in expected_shapes(config).values()]
    return Size(sum(sizes), max(*sizes, 2 * config.hidden * config.intermediate))


def need(size: Size, form: Format, kv: int) -> Need:
    """What a model takes on a CPU. Its checkpoint is mapped while it is read: the system takes that back."""
    weights = BYTES[form] * (size.parameters - size.fixed) + BYTES["fp32"] * size.fixed
    return Need(form, weights, kv, PACKING * size.matrix)


def usable(
    config: ModelConfig, wanted: Literal["auto"] | Format, kv: int, folder: Path | None = None, soon: int = 0
) -> list[Format]:
    """The wanted formats, or of "auto" all, in which a model fits into this machine's memory; else a ModelError.

    `soon` are bytes that come free before it is loaded.
    """
    size, free, possible = size_of(config, folder), available_memory() + soon, formats(config)
    asked: list[Format] = [form for form in possible if wanted in ("auto", form)]
    if not asked:
        raise ModelError(f"weights {wanted!r} cannot be used on this CPU: set weights to 'auto'")
    if fit := fitting(size, asked, kv, free):
        return fit
    raise refusal(size, asked, [form for form in possible if form not in asked], kv, free)


def usable_on_gpu(size: Size, kv: int, config: ModelConfig | None) -> list[Form]:
    """The formats in which a model fits into the GPU's memory, surely where its shape is not known.

    None where there is no GPU that can be used for it.
    """
    if cuda_missing() or (config and unfit(config)):
        return []
    free = torch.cuda.mem_get_info()[0] - RESERVE - kv
    taken = {
        form: weight_bytes(config, form) if config else most_weight_bytes(size.parameters, size.matrix, form)
        for form in GPU_FORMS
    }
    return [form for form in GPU_FORMS if taken[form] <= free]


def fitting(size: Size, forms: Collection[Format], kv: int, free: int) -> list[Format]:
    """Those of the formats with which a model fits into so many free bytes."""
    return [form for form in forms if need(size, form, kv).total <= free]


def refusal(size: Size, forms: Collection[Format], others: Collection[Format], kv: int, free: int) -> ModelError:
    """Why none of the formats fits, in numbers, and what would; `others` could be asked for instead."""
    least = min((need(size, form, kv) for form in forms), key=lambda each: each.total)
    parts = f"{least.form} weights {_gib(least.weights)}, KV {_gib(least.kv)}, working {_gib(least.working)}"
    told = f"the model needs {_gib(least.total)} GiB of memory ({parts}) and {_gib(free)} are free here"
    if instead := fitting(size, others, kv, free):
        needed = _gib(need(size, instead[0], kv).total)
        return ModelError(f"{told}: set weights to {instead[0]!r}, which needs {needed}, or to 'auto'")
    return ModelError(f"{told}: {_advice(size, [*forms, *others], kv, free)}")


def _advice(size: Size, forms: Collection[Format], kv: int, free: int) -> str:
    """What could be used here, judged by what this model takes for each of its parameters."""
    least = min((need(size, form, kv) for form in forms), key=lambda each: each.total)
    most = size.parameters * (free - least.kv) // (least.weights + least.working)
    if (known := largest_within(most)) is None:
        return "use the embedded model, lower kv_memory_mib or end other programs"
    return f"use a model of up to {most / 1e9:.1f} billion parameters, such as {known.name}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"
