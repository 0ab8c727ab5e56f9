"""Chooses a model's decoder on a CPU: measured once for each shape of model and machine, then remembered."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import astuple, replace
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from statistics import median
from time import perf_counter
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Weights, expected_shapes
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.decoder.native.library import library_hash
from model_runtime.decoder.quantization import Format, int8_too_wide
from model_runtime.errors import ModelError
from model_runtime.kv.arena import Arena
from model_runtime.loading.memo import Memo
from model_runtime.machine import cpu_name, install_command

TIMED_CONTEXT = 256  # tokens before the timed ones
PASS_COUNTS = {
    1: 10.0,
    4: 1.0,
    64: 0.5,
}  # rows of a pass: about how many such passes an answer by the model takes
TIMED_REPEATS = 5
SAMPLE_PARAMETERS = 1 << 24  # parameters of a sample: further layers cost what these do
SAMPLE_VOCAB = 4096
NOISE = 65_537  # numbers that a sample's weights repeat: what they are takes no part in the time
FORMATS: tuple[Format, ...] = get_args(Format)


class PassTimes(NamedTuple):
    """Milliseconds of passes of 1, 4 and 64 rows, as `PASS_COUNTS` has them."""

    one: float
    few: float
    many: float

    @property
    def mean(self) -> float:
        """Milliseconds of a pass of an answer, on average."""
        counts = PASS_COUNTS.values()
        return sum(count * ms for count, ms in zip(counts, self, strict=True)) / sum(counts)

    @property
    def row(self) -> float:
        """Milliseconds of one row of a wide pass."""
        return self.many / max(PASS_COUNTS)

    def times(self, factor: float) -> PassTimes:
        """Return what a model takes that is so many times as large."""
        return PassTimes(*(factor * ms for ms in self))


Measurements = dict[str, tuple[str, dict[str, PassTimes]]]  # by machine and shape: the day, and each way's times

logger = logging.getLogger(__name__)


class CpuMethod(NamedTuple):
    """How a model is computed on a CPU: the format of its weights, by the compiled part or by torch."""

    form: Format
    compiled: bool

    def __str__(self) -> str:
        return f"{self.form} {'compiled' if self.compiled else 'torch'}"

    def decoder(self, config: ModelConfig, weights: Weights, threads: int) -> AnyDecoder:
        """Return a decoder with prepared weights; imports torch only if that computes."""
        if self.compiled:
            return NativeDecoder(config, weights, self.form, threads)
        import torch

        from model_runtime.decoder.decoder import Decoder

        torch.set_num_threads(threads)
        return Decoder(config, weights, self.form)


def supported_formats(config: ModelConfig) -> list[Format]:
    """Return the formats in which this CPU can compute a model with what is installed."""
    has_torch = find_spec("torch") is not None
    if ways := _compiled_ways(config):
        return [*(["fp32"] if has_torch else []), *(way.form for way in ways)]
    return list(dict.fromkeys(way.form for way in _torch_ways(config))) if has_torch else []


def torch_missing(config: ModelConfig, wanted: str) -> str | None:
    """Return what to tell where only torch computes what is wanted and it is not installed; None if it is."""
    if find_spec("torch"):
        return None
    reason = native_missing(config) or f"it does not compute weights {wanted!r}"
    lack = f"the compiled decoder cannot be used ({reason}), and torch is not installed"
    return f"{lack}: run {install_command('torch')}"


def remembered_times(config: ModelConfig, threads: int, notes: Memo | None) -> dict[str, PassTimes]:
    """Return the times of passes by method, if they were measured here; a sample's figures are scaled up."""
    _, figures = _read(notes).get(_key(config, threads)) or ("", {})
    sizes = [sum(map(prod, expected_shapes(each).values())) for each in (config, _sample(config))]
    return {way: times.times(sizes[0] / sizes[1]) for way, times in figures.items()}


def choose_method(
    config: ModelConfig,
    wanted: Literal["auto", "fp32", "fp16", "int8"],
    threads: int,
    notes: Memo | None,
    fitting: Collection[str] = FORMATS,
    refused: Collection[CpuMethod] = (),
) -> tuple[CpuMethod, str]:
    """Return the way to compute a model on this CPU and the reason, for the log and `doctor`.

    All ways compute a token alone exactly as they compute it among others. torch's are considered only where no
    compiled one computes what is wanted: they were slower wherever both were measured, and importing torch takes
    seconds. `notes` keep what was measured; `fitting` are the formats for which there is enough memory, `refused`
    ways that cannot hold the weights.
    """
    compiled = _compiled_ways(config)
    possible = [way for way in compiled if wanted in ("auto", way.form) and way not in refused]
    if not possible:
        if missing := torch_missing(config, wanted):
            raise ModelError(missing)
        possible = [way for way in _torch_ways(config) if wanted in ("auto", way.form) and way not in refused]
    ways = [way for way in possible if way.form in fitting]
    why_not = native_missing(config)
    if not ways:
        lack = (int8_too_wide(config) if wanted == "int8" else None) or why_not or "no products of that kind"
        raise ModelError(f"weights {wanted!r} cannot be used here ({lack}): set weights to 'auto'")
    excuse = f"; the compiled decoder is left out: {why_not}" if why_not else ""
    excuse += "".join(f"; {way} is left out: it cannot hold the weights" for way in refused)
    if len(ways) == 1:
        only = "there is no other" if len(possible) == 1 else "no other fits into memory"
        return ways[0], ("asked for by the setting" if wanted != "auto" else only) + excuse
    excuse += "; torch is left out: it is slower than the compiled decoder" if ways[0].compiled else ""
    timed = compiled if ways[0].compiled else _torch_ways(config)
    figures, when = _figures(config, timed, threads, notes)
    told = ", ".join(f"{way} {figures[str(way)].mean:.2f}" for way in ways)
    fastest = min(ways, key=lambda way: figures[str(way)].mean)
    return fastest, f"the fastest here: {told} ms a pass ({when}){excuse}"


def _figures(
    config: ModelConfig, ways: list[CpuMethod], threads: int, notes: Memo | None
) -> tuple[dict[str, PassTimes], str]:
    """Return each way's times of passes, remembered or measured now, and when that was."""
    key = _key(config, threads)
    day, figures = _read(notes).get(key) or ("", {})
    if set(map(str, ways)) <= figures.keys():
        return figures, f"measured on {day}"
    figures = _measure(config, ways, threads)
    # Another server may have written meanwhile.
    _write(notes, _read(notes) | {key: (date.today().isoformat(), figures)})
    return figures, "measured now"


def _compiled_ways(config: ModelConfig) -> list[CpuMethod]:
    if native_missing(config):
        return []
    return [CpuMethod("fp16", True)] + [CpuMethod("int8", True)] * (int8_too_wide(config) is None)


def _torch_ways(config: ModelConfig) -> list[CpuMethod]:
    """Return the ways in which torch can compute a model."""
    from model_runtime.decoder.linear import int8_is_exact, packed_format

    ways = [CpuMethod("fp32", False)] + [CpuMethod("fp16", False)] * (packed_format() == "fp16")
    return ways + [CpuMethod("int8", False)] * (int8_too_wide(config) is None and int8_is_exact())


def _measure(config: ModelConfig, ways: list[CpuMethod], threads: int) -> dict[str, PassTimes]:
    """Return each way's times of passes, medians; the methods take turns."""
    sample = _sample(config)
    noise = np.sin(np.arange(NOISE, dtype=np.float32) ** 2) * np.float32(0.02)
    weights: Weights = {name: np.resize(noise, shape) for name, shape in expected_shapes(sample).items()}
    runs = {str(way): _timer(way.decoder(sample, weights, threads), sample) for way in ways}
    times: dict[str, list[list[float]]] = {name: [] for name in runs}
    for _ in range(TIMED_REPEATS):
        for name, run in runs.items():
            times[name].append(run())
    return {name: PassTimes(*map(median, zip(*each, strict=True))) for name, each in times.items()}


def _timer(decoder: AnyDecoder, config: ModelConfig) -> Callable[[], list[float]]:
    arena = Arena(config, config.context)
    ids = np.arange(config.context, dtype=np.int32) % config.vocab
    decoder.forward(ids[:TIMED_CONTEXT], arena)

    def one(rows: int) -> float:
        arena.truncate(TIMED_CONTEXT)
        began = perf_counter()
        decoder.forward(ids[:rows], arena)
        return (perf_counter() - began) * 1e3

    return lambda: [one(rows) for rows in PASS_COUNTS]


def _sample(config: ModelConfig) -> ModelConfig:
    """Return the model's shape with fewer layers and tokens; times of the whole model are in proportion."""
    layer = config.hidden * (config.head_dim * (2 * config.heads + 2 * config.kv_heads) + 3 * config.intermediate)
    layers = max(1, min(config.layers, SAMPLE_PARAMETERS // layer))
    return replace(
        config,
        layers=layers,
        vocab=min(config.vocab, SAMPLE_VOCAB),
        context=TIMED_CONTEXT + max(PASS_COUNTS),
    )


def _key(config: ModelConfig, threads: int) -> str:
    """Return what the figures depend on."""
    torch = version("torch") if native_missing(config) and find_spec("torch") else ""
    machine = [cpu_name(), torch, library_hash(), threads]
    return json.dumps([*machine, astuple(replace(config, context=0, end_ids=()))])


def _read(notes: Memo | None) -> Measurements:
    """Return what was measured before; nothing if it cannot be read, and then it is measured again."""
    try:
        found = cast(dict[str, Any], json.loads(notes.read())) if notes else {}
        return {
            key: (str(day), {way: PassTimes(*map(float, each)) for way, each in figures.items()})
            for key, (day, figures) in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return {}


def _write(notes: Memo | None, kept: Measurements) -> None:
    if notes is None:
        return
    try:
        notes.write(json.dumps(kept, indent=1))
    except OSError as error:
        logger.info(
            "measured speeds cannot be written to %s (%s): they are measured again at every start", notes, error
        )
