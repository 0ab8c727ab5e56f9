"""From a checkpoint folder to an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, Unpack

import torch

from model_runtime import attention
from model_runtime.arena import FP32, Arena, arena_bytes
from model_runtime.choosing import choose
from model_runtime.config import ModelConfig, read_config
from model_runtime.engine import Engine
from model_runtime.errors import ModelError
from model_runtime.gpu.device import BF16, Device, choose_device
from model_runtime.kv_format import KvFormat, fingerprint, hashing
from model_runtime.local_cache import FILE, LocalCache
from model_runtime.local_cache import read as read_local_cache
from model_runtime.pool import Pool
from model_runtime.runtime import Runtime
from model_runtime.template import Template, find_template
from model_runtime.tokenizer import Tokenizer
from model_runtime.weights import Weights, read_weights, weight_files

MOST_ARENAS = 64  # each is looked at for every prompt
MIB = 1 << 20


@dataclass(frozen=True)
class Description:
    """What runs, where, and why it was chosen."""

    model: str
    parameters: int
    device: str
    device_reason: str
    weights: str
    decoder: str
    decoder_reason: str
    attention: str
    attention_reason: str
    context: int
    arenas: int
    threads: int
    local_cache: bool
    local_cache_reason: str


@dataclass(frozen=True)
class Model:
    """A loaded model: its tokenizer and template for planning, its engine for answers.

    `local_cache` is what the engine mixes in: the figures in the model's folder, where the setting allows it.
    """

    tokenizer: Tokenizer
    template: Template
    engine: Engine
    local_cache: LocalCache | None
    kv: KvFormat
    description: Description


class Wanted(TypedDict):
    """Where and how a model is to be computed.

    `weights` and `threads` are for a CPU; `measured` is the file that remembers which decoder is the fastest there.
    """

    device: NotRequired[Device]
    weights: Literal["auto", "fp32", "fp16", "int8"]
    threads: int
    measured: Path | None


def load(
    folder: Path,
    *,
    capacity: int,
    kv_memory_mib: int,
    local_cache: bool,
    progress: Callable[[str, int], None],
    **wanted: Unpack[Wanted],
) -> Model:
    """Load a checkpoint folder; ModelError names what is wrong with it. `capacity` is in tokens.

    The arenas together take no more than `kv_memory_mib`; on a CPU they are allocated when they are first needed.
    """
    progress("reading the tokenizer", 5)
    config = read_config(folder)
    capacity = min(capacity, config.context)
    choice = choose_device(wanted.get("device", "auto"), config, kv_memory_mib)
    arenas = _arenas(config, capacity, kv_memory_mib, BF16 if choice.device == "cuda" else FP32)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    if tokenizer.vocab > config.vocab:
        sizes = f"{tokenizer.vocab} tokens, the model {config.vocab}"
        raise ModelError(f"{folder}: the tokenizer has {sizes}: fetch the model again")
    template = find_template(tokenizer.special)
    torch.set_num_threads(wanted["threads"])
    progress("reading the weights", 20)
    hashed = hashing([*weight_files(folder), folder / "tokenizer.json"])
    tensors = read_weights(folder, config)
    progress("packing the weights", 60)
    runtime = (_on_gpu if choice.device == "cuda" else on_cpu)(config, tensors, capacity, arenas, wanted)
    cache, cache_reason = _local_cache(folder, local_cache)
    engine = Engine(runtime.decoder, tokenizer, Pool(runtime.arena, runtime.arenas), capacity, cache)
    description = Description(
        model=str(folder),
        parameters=sum(t.numel() for t in tensors.values()),
        device=choice.device,
        device_reason=choice.reason,
        weights=runtime.weights,
        decoder=runtime.name,
        decoder_reason=runtime.reason,
        attention=runtime.attention,
        attention_reason=runtime.attention_reason,
        context=config.context,
        arenas=runtime.arenas,
        threads=wanted["threads"],
        local_cache=cache is not None,
        local_cache_reason=cache_reason,
    )
    shape = (config.layers, config.kv_heads, config.head_dim)
    kv = KvFormat(fingerprint(hashed.result(), config, runtime.kv), *shape, runtime.decoder.rotations)
    return Model(tokenizer, template, engine, cache, kv, description)


def on_cpu(config: ModelConfig, tensors: Weights, capacity: int, arenas: int, wanted: Wanted) -> Runtime:
    """Prepare a model for the CPU in the way that is wanted, or the fastest."""
    way, reason = choose(config, wanted["weights"], wanted["threads"], wanted["measured"])
    return Runtime(
        decoder=way.decoder(config, tensors, wanted["threads"]),
        arena=lambda: Arena(config, capacity),
        arenas=arenas,
        weights=way.form,
        kv=way.form,
        name="compiled" if way.compiled else "torch",
        reason=reason,
        attention="compiled" if way.compiled else attention.BACKEND,
        attention_reason="a part of the compiled decoder" if way.compiled else attention.REASON,
    )


def _on_gpu(config: ModelConfig, tensors: Weights, capacity: int, arenas: int, _: Wanted) -> Runtime:
    from model_runtime.gpu.load import on_gpu  # not needed, and perhaps not installed, on a CPU

    return on_gpu(config, tensors, capacity, arenas)


def _local_cache(folder: Path, wanted: bool) -> tuple[LocalCache | None, str]:
    """Shares that were fitted to another model would weigh this one wrongly: there is no default."""
    if not wanted:
        return None, "switched off"
    cache = read_local_cache(folder)
    return cache, "fitted to this model" if cache else f"the model's folder has no {FILE}"


def _arenas(config: ModelConfig, capacity: int, mib: int, element: int) -> int:
    """How many arenas of elements of so many bytes fit."""
    size = arena_bytes(config, capacity) // FP32 * element
    if size > mib * MIB:
        needed = f"the KV cache of one frame takes {-(-size // MIB)} MiB, the setting kv_memory_mib allows {mib}"
        raise ModelError(f"{needed}: raise it, or lower head_tokens and tail_tokens")
    return min(MOST_ARENAS, mib * MIB // size)
