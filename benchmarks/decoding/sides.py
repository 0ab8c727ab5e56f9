"""What computes the same matrices in a benchmark of speed: the own decoder, transformers, llama.cpp."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol, get_args

import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel, StaticCache
from transformers.cache_utils import StaticLayer

from benchmarks.decoding.shapes import as_llama
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import CHUNK, AnyDecoder
from model_runtime.decoder.linear import packed_format
from model_runtime.decoder.native.decoder import native_missing
from model_runtime.decoder.quantization import Format
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.weight_format import CpuMethod

OURS, TRANSFORMERS, LLAMA = "ours", "transformers", "llama.cpp"
UNASKED = ("fp32", "fp16", "int8")  # formats that `auto` may take
COMPILED = ", compiled"  # ends the names of transformers' rows with a static cache
STEP_ROWS = 64  # the most in a compiled pass: wider passes are prefill, which its documentation leaves eager


class Side(Protocol):
    """A model that holds a sequence of tokens; logits follow the last of them."""

    def truncate(self, length: int, /) -> None:
        """Keep the first `length` tokens."""
        ...

    def forward(self, ids: Ids, /) -> object:
        """Append tokens."""
        ...


class Named(NamedTuple):
    """A side, and the row of the table that it belongs to: of several in a row the faster counts."""

    name: str
    side: Side


class Own:
    """The own decoder in passes as wide as the engine's."""

    def __init__(self, decoder: AnyDecoder, capacity: int) -> None:
        self._decoder, self._arena = decoder, DenseArena(decoder.config, capacity)

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self._arena.truncate(length)

    def forward(self, ids: Ids) -> object:
        """Append tokens."""
        return [self._decoder.forward(ids[at : at + CHUNK], self._arena) for at in range(0, len(ids), CHUNK)]


class Transformers:
    """Its model as it is, eager, with the attention and the cache that it takes by itself."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model, self._cache = model, DynamicCache()

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        surplus = self._cache.get_seq_length() - length
        if not length:
            self._cache = DynamicCache()
        elif surplus:
            self._cache.crop(-surplus)

    @torch.inference_mode()
    def forward(self, ids: Ids) -> object:
        """Append tokens."""
        row = torch.as_tensor(ids)[None].long()
        return self._model(row, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits


class CompiledTransformers:
    """Its model with a static cache, decode passes by torch.compile, which compiles each width at its first pass."""

    def __init__(self, model: PreTrainedModel, capacity: int) -> None:
        self._eager, self._compiled = model, torch.compile(model, dynamic=False)
        self._cache = StaticCache(model.config, capacity)

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        for layer in self._cache.layers:
            if isinstance(layer, StaticLayer):
                layer.cumulative_length.fill_(length)

    @torch.inference_mode()
    def forward(self, ids: Ids) -> object:
        """Append tokens."""
        model = self._compiled if len(ids) <= STEP_ROWS else self._eager
        row = torch.as_tensor(ids)[None].long()
        return model(row, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits


def of_own(folder: Path, threads: int, capacity: int, forms: Collection[str] = UNASKED) -> Iterator[Named]:
    """Load a checkpoint's folder in each of these formats, by the compiled decoder if it is there."""
    config = read_config(folder)
    weights = read_weights(folder, config)
    for way in _ways(config, forms):
        yield Named(f"{OURS} {way.form}", Own(way.decoder(config, weights, threads), capacity))


def of_transformers(folder: Path, context: int) -> Iterator[Named]:
    """Load a checkpoint's folder in every way of transformers; steps are taken behind `context` tokens."""
    with tempfile.TemporaryDirectory() as temporary:
        rival = as_llama(folder, Path(temporary))
        for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
            model = AutoModelForCausalLM.from_pretrained(rival, dtype=dtype, attn_implementation="sdpa").eval()
            yield Named(f"{TRANSFORMERS} {name}", Transformers(model))
            # No longer than it must be: attention reads all of a static cache at each step.
            yield Named(f"{TRANSFORMERS} {name}{COMPILED}", CompiledTransformers(model, context + STEP_ROWS))


def of_gguf(folder: Path, threads: int, capacity: int) -> Iterator[Named]:
    """Load a folder's GGUF files, each with one attention and the other."""
    from benchmarks.decoding.llama import Llama, Weights  # llama.cpp is installed for `make bench` only

    for path in sorted(folder.glob("*.gguf")):
        weights = Weights(path)
        for flash in (False, True):
            yield Named(f"{LLAMA} {path.stem}", Llama(weights, threads, capacity, flash))


def llama_missing() -> str | None:
    """Return why llama.cpp cannot be measured, or None where it can."""
    if lacking := [name for name in ("llama_cpp", "gguf") if not find_spec(name)]:
        return f"{' and '.join(lacking)} not installed: run make bench in a clone of efim-ls"
    used = import_module("llama_cpp").llama_print_system_info().decode()
    widest = torch.backends.cpu.get_cpu_capability()
    if widest in ("AVX2", "AVX512") and f"{widest} = 1" not in used:
        remedy = "uninstall llama-cpp-python, remove .venv/benches and run make bench"
        return f"llama.cpp was built without {widest}, which this CPU has: {remedy}"
    return None


def _ways(config: ModelConfig, forms: Collection[str]) -> Iterator[CpuMethod]:
    compiled = native_missing(config) is None
    for form in get_args(Format):
        if form not in forms:
            continue
        if form != "fp32" and compiled:
            yield CpuMethod(form, True)
        elif form in ("fp32", packed_format()):
            yield CpuMethod(form, False)
