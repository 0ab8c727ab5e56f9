"""Decides whether a model fits into memory, and says how much it needs or which would fit instead."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import up_outputs
from model_runtime.checkpoint.rope import rotation_bytes
from model_runtime.checkpoint.tensor_shapes import computed_shapes, count_active
from model_runtime.decoder.gpu.device import GPU_RESERVE, GpuFormat, gpu_unfit, most_weight_bytes, weight_bytes
from model_runtime.decoder.native.held_experts import PartialFit
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.kv.layout import EXCERPT_ROWS_KEPT, arena_bytes
from model_runtime.loading.known_models import largest_within
from model_runtime.loading.weight_format import COARSE, COARSE_FROM, is_supported, supported_formats, torch_missing
from model_runtime.machine import available_memory, cuda_missing, free_gpu_memory, roomiest_gpu
from model_runtime.shelves.experts_on_disk.placement import fit_experts

# Of a parameter, with the scales of groups.
FORMAT_BYTES: dict[Format, float] = {"fp32": 4, "fp16": 2, "int8": 1, "int8_groups": 1.0625, "int4": 0.5625}
PACKING_BYTES = 8  # extra bytes for each element of the largest matrix: its parts in fp32, and these joined
WHOLE = ("F32", "F16", "BF16")  # types of GGUF files that round nothing to few bits
GPU_FORMATS: tuple[GpuFormat, ...] = get_args(GpuFormat)
MIB, GIB = 1 << 20, 1 << 30

Need = Callable[[Format, int], int]  # bytes of a model in a format, without a number of its parameters
PartialFitRow = Callable[[ModelConfig, Literal["auto"] | Format, int, Need], PartialFit | None]

# The options that hold a model of which memory has no room for all, the first that can.
PARTIAL_FITS: tuple[PartialFitRow, ...] = (fit_experts,)


class ModelSize(NamedTuple):
    """The counts of a model's parameters: all, its largest matrix's, and parameters that stay fp32 in any format.

    `idle` are parameters of experts that a token does not choose: they take memory and no time.
    """

    parameters: int
    matrix: int
    fixed: int = 0
    idle: int = 0


class FitRequest(NamedTuple):
    """A candidate for memory: a model in a format, or in the best of all, with `kv` bytes of keys and values.

    `folder` is the folder of a model for transformers, and `soon` is how many bytes become free before it is loaded.
    A GGUF file has a `quantization`.
    """

    config: ModelConfig
    wanted: Literal["auto"] | Format
    kv: int
    folder: Path | None = None
    soon: int = 0
    quantization: str = ""


class CpuFit(NamedTuple):
    """The formats in which a model fits, and how memory holds it if that is in part alone."""

    forms: list[Format]
    part: PartialFit | None = None


class MemoryNeed(NamedTuple):
    """Bytes that a model needs: weights in one format, KV arenas, and working memory while it is loaded."""

    form: Format
    weights: int
    kv: int
    working: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.kv + self.working


def model_size(config: ModelConfig, folder: Path | None = None) -> ModelSize:
    """Return the size of a model of this shape; one for transformers is counted from its folder.

    Values of tokens take no memory on a CPU: they are looked up in a file that is mapped. Compact files, in which
    they are not, are small.
    """
    if config.foreign and folder:
        from model_runtime.decoder.hf.config import hf_size

        return ModelSize(*hf_size(folder))
    shapes = computed_shapes(config).values()
    joined = max(config.hidden * up_outputs(layer.mlp) for layer in set(config.layers))
    total = sum(map(prod, shapes))
    return ModelSize(total, max(joined, *(prod(shape[-2:]) for shape in shapes)), idle=total - count_active(config))


def kv_bytes(config: ModelConfig, capacity: int, arenas: int) -> int:
    """Return the bytes of arenas of `capacity` tokens on a CPU, of the rotations that they share, and of excerpts."""
    excerpts = (EXCERPT_ROWS_KEPT + 1) * arena_bytes(config, 0)
    return (
        arenas * arena_bytes(config, capacity)
        + excerpts
        + len(config.ropes) * rotation_bytes(config.rotated, config.excerpt_rows + capacity)
    )


def memory_need(size: ModelSize, form: Format, kv: int) -> MemoryNeed:
    """Return what a model needs on a CPU, without its mapped checkpoint, which the system can reclaim."""
    weights = FORMAT_BYTES[form] * (size.parameters - size.fixed) + FORMAT_BYTES["fp32"] * size.fixed
    return MemoryNeed(form, int(weights), kv, PACKING_BYTES * size.matrix)


def fit_on_cpu(request: FitRequest, *, in_part: bool) -> CpuFit:
    """Return how a model fits into this machine's memory: whole, or else `in_part`.

    Raises ModelError.
    """
    try:
        return CpuFit(usable_formats(request))
    except ModelError:
        fit = fit_in_part(request, available_memory() + request.soon) if in_part else None
        if fit is None:
            raise
        return fit


def fit_in_part(request: FitRequest, free: int) -> CpuFit | None:
    """Return how `free` bytes, which have no room for all of a model, can hold it in part; None if they cannot."""

    def need(form: Format, elsewhere: int) -> int:
        size = model_size(request.config)
        return memory_need(size._replace(parameters=size.parameters - elsewhere), form, request.kv).total

    fits = (row(request.config, request.wanted, free, need) for row in PARTIAL_FITS)
    part = next((fit for fit in fits if fit), None)
    return part and CpuFit([part.form], part)


def usable_formats(request: FitRequest) -> list[Format]:
    """Return the wanted formats in which a model fits into this machine's memory; else ModelError."""
    config, wanted, kv, folder, soon, quantization = request
    size, free, possible = model_size(config, folder), available_memory() + soon, supported_formats(config)
    asked: list[Format] = automatic_formats(size, possible, quantization)
    if wanted != "auto":
        asked = [wanted] if is_supported(config, wanted) else []
    if not asked:
        cause = f"weights {wanted!r} cannot be used on this CPU: set weights to 'auto'"
        raise ModelError(torch_missing(config, wanted) or cause)
    if fit := fitting_formats(size, asked, kv, free):
        return fit
    raise does_not_fit(size, asked, [form for form in possible if form not in asked], kv, free)


def automatic_formats(size: ModelSize, possible: Collection[Format], quantization: str = "") -> list[Format]:
    """Return which of some formats `auto` may take.

    int4 is for large models alone, and not for weights that were rounded to few bits before: they would lose more.
    """
    is_coarse = size.parameters >= COARSE_FROM and quantization in ("", *WHOLE)
    return [form for form in possible if is_coarse or form != COARSE.form]


def usable_gpu_formats(size: ModelSize, kv: int, config: ModelConfig | None) -> list[GpuFormat]:
    """Return the formats in which a model fits into the GPU's memory; none without a GPU that can run it.

    If its shape is not known, a format is listed only if the model fits in any case.
    """
    if cuda_missing() or (config and gpu_unfit(config)):
        return []
    free = free_gpu_memory(roomiest_gpu()) - GPU_RESERVE - kv
    taken = {
        form: weight_bytes(config, form) if config else most_weight_bytes(size.parameters, size.matrix, form)
        for form in GPU_FORMATS
    }
    return [form for form in GPU_FORMATS if taken[form] <= free]


def fitting_formats(size: ModelSize, forms: Collection[Format], kv: int, free: int) -> list[Format]:
    """Return those formats with which a model fits into `free` bytes."""
    return [form for form in forms if memory_need(size, form, kv).total <= free]


def does_not_fit(
    size: ModelSize, forms: Collection[Format], others: Collection[Format], kv: int, free: int
) -> ModelError:
    """Return an error that says in numbers why no format fits, and what would; `others` could be set instead."""
    least = min((memory_need(size, form, kv) for form in forms), key=lambda each: each.total)
    parts = f"{least.form} weights {_gib(least.weights)}, KV {_gib(least.kv)}, working {_gib(least.working)}"
    cause = f"the model needs {_gib(least.total)} GiB of memory ({parts}) and {_gib(free)} are free here"
    if instead := fitting_formats(size, others, kv, free):
        needed = _gib(memory_need(size, instead[0], kv).total)
        return ModelError(f"{cause}: set weights to {instead[0]!r}, which needs {needed}, or to 'auto'")
    return ModelError(f"{cause}: {_advice(size, [*forms, *others], kv, free)}")


def no_memory(size: ModelSize, forms: Collection[Format]) -> ModelError:
    """Return an error for a model that seemed to fit, and for which the system then had no memory."""
    least = min((memory_need(size, form, 0).total for form in forms), default=size.parameters)
    how = "end other programs or choose a smaller model"
    return ModelError(f"there is not enough memory for the model ({-(-least // MIB):,} MiB): {how}")


def _advice(size: ModelSize, forms: Collection[Format], kv: int, free: int) -> str:
    """Return what could be used here, judged by what this model needs for each of its parameters."""
    least = min((memory_need(size, form, kv) for form in forms), key=lambda each: each.total)
    most = size.parameters * (free - least.kv) // (least.weights + least.working)
    if (known := largest_within(most)) is None:
        return "use the embedded model, lower memory_mib or end other programs"
    return f"use a model of up to {most / 1e9:.1f} billion parameters, such as {known.name}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"
