"""Chooses the format of a model's weights and its decoder on a CPU, by a rule: the same at every start."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import Literal, NamedTuple, get_args

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.decoder.native.held_experts import ExpertKeeper
from model_runtime.decoder.quantization import Format, int8_too_wide
from model_runtime.errors import ModelError
from model_runtime.machine import install_command

FORMATS: tuple[Format, ...] = get_args(Format)
FINE: tuple[Format, ...] = tuple(form for form in FORMATS if form != "int4")
FASTEST = "the fastest way that can be used here"


class CpuMethod(NamedTuple):
    """How a model is computed on a CPU: the format of its weights, by the compiled part or by torch."""

    form: Format
    compiled: bool

    def __str__(self) -> str:
        return f"{self.form} {'compiled' if self.compiled else 'torch'}"

    def decoder(
        self, config: ModelConfig, weights: Weights, threads: int, keeper: ExpertKeeper | None = None
    ) -> AnyDecoder:
        """Return a decoder with prepared weights; imports torch only if that computes.

        The compiled one alone can hold some experts with a `keeper` instead of all.
        """
        if self.compiled:
            return NativeDecoder(config, weights, self.form, threads, keeper=keeper)
        import torch

        from model_runtime.decoder.streams import torch_decoder

        torch.set_num_threads(threads)
        return torch_decoder(config, weights, self.form)


# The rule: `auto` takes the first that can be used. They were measured in this order for each set of instructions and
# size of model (docs/models.md), except torch's fp32 before its int8: where there is no fp16, exact comes first.
ORDER = (
    CpuMethod("int8", compiled=True),
    CpuMethod("fp16", compiled=True),
    CpuMethod("fp16", compiled=False),
    CpuMethod("fp32", compiled=False),
    CpuMethod("int8", compiled=False),
)
# Before these where `fitting` has it. For large models it is the fastest; docs/benchmarks/decoder.md says how many
# choices its rounding changes. Small ones gain less and lose more.
COARSE = CpuMethod("int4", compiled=True)
COARSE_FROM = 300_000_000  # parameters from which `auto` takes it
AS_STORED = CpuMethod("int8_groups", compiled=True)  # of files whose weights are in such groups
KEEPING: dict[str, Format] = {"Q4_0": COARSE.form, "Q8_0": AS_STORED.form}  # what keeps the numbers of a GGUF file


def choose_method(
    config: ModelConfig,
    wanted: Literal["auto"] | Format,
    fitting: Collection[Format] = FINE,
    refused: Collection[CpuMethod] = (),
) -> tuple[CpuMethod, str]:
    """Return the way to compute a model on this CPU and the reason, for the log and `doctor`.

    All ways compute a token alone exactly as they compute it among others. `fitting` are the formats that may be
    taken and for which there is enough memory, `refused` ways that cannot hold the weights.
    """
    left_out: dict[str, list[str]] = {}  # the ways before the chosen one, by what keeps them from being used
    ways = (COARSE, *ORDER) if COARSE.form in fitting else ORDER
    if wanted != "auto":
        ways = tuple(way for way in (*ORDER, COARSE, AS_STORED) if way.form == wanted)
    for way in ways:
        lack = "the weights are beyond its range" if way in refused else _lack(config, way, fitting)
        if lack is None:
            excuses = (f"; {' and '.join(ways)} left out: {lack}" for lack, ways in left_out.items())
            return way, ("asked for by the setting" if wanted != "auto" else FASTEST) + "".join(excuses)
        left_out.setdefault(lack, []).append(str(way))
    message = f"weights {wanted!r} cannot be used here ({', '.join(left_out)}): set weights to 'auto'"
    raise ModelError(torch_missing(config, wanted) or message)


def keeping_format(config: ModelConfig, quantization: str) -> Format | None:
    """Return the format that keeps the numbers of a quantized file, None if no format that can be used does."""
    keeping = KEEPING.get(quantization)
    return keeping if keeping and is_supported(config, keeping) else None


def usable_methods(config: ModelConfig) -> list[CpuMethod]:
    """Return the ways in which a model can be computed here, the fastest first; imports torch if it is installed."""
    return [way for way in (*ORDER, COARSE) if _lack(config, way) is None]


def supported_formats(config: ModelConfig) -> list[Format]:
    """Return the formats in which this CPU can compute any model of this shape with the installed packages."""
    return [form for form in FORMATS if form != AS_STORED.form and is_supported(config, form)]


def is_supported(config: ModelConfig, form: Format) -> bool:
    """Return whether this CPU can compute a model in a format with the installed packages."""
    return any(way.form == form and _lack(config, way) is None for way in (*ORDER, COARSE, AS_STORED))


def torch_missing(config: ModelConfig, wanted: str) -> str | None:
    """Return the message for a format that only torch computes if torch is not installed, else None."""
    if find_spec("torch"):
        return None
    reason = native_missing(config) or f"it does not compute weights {wanted!r}"
    lack = f"the compiled decoder cannot be used ({reason}), and torch is not installed"
    return f"{lack}: run {install_command('torch')}"


def _lack(config: ModelConfig, way: CpuMethod, fitting: Collection[Format] = FORMATS) -> str | None:
    """Return why a model cannot be computed in a way here, or None if it can; imports torch only to ask about it."""
    if way.form == "int8" and (too_wide := int8_too_wide(config)):
        return too_wide
    if way.form not in fitting:
        return "there is not enough memory"
    return native_missing(config) if way.compiled else _torch_lack(way.form)


def _torch_lack(form: Format) -> str | None:
    if not find_spec("torch"):
        return "torch is not installed"
    if form == "fp32":
        return None
    from model_runtime.decoder.linear import int8_is_exact, packed_format

    if form == "fp16":
        return None if packed_format() == "fp16" else "torch has no products of fp16 here"
    return None if int8_is_exact() else "torch's products of int8 are not exact here"
