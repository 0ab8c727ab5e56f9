"""Decoding beside transformers: the same weights, one thread, turn by turn in one run."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from benchmarks.table import show
from model_runtime.arena import Arena
from model_runtime.config import EMBEDDED, read_config
from model_runtime.decoder import Decoder
from model_runtime.linear import packed_format
from model_runtime.weights import read_weights

CONTEXT = 512  # tokens before the ones that are timed
ROUNDS, STEPS = 15, 16


def measure() -> dict[str, float]:
    """Milliseconds a decoded token, medians over alternating rounds; at 512 tokens of context."""
    torch.set_num_threads(1)
    ours, theirs = _ours(), _theirs()
    times = [(_round(ours), _round(theirs)) for _ in range(ROUNDS)]
    own, reference = median(t[0] for t in times), median(t[1] for t in times)
    result = {"own_ms": own, "transformers_ms": reference, "ratio": own / reference}
    header = (f"own decoder, {packed_format()}", "transformers, eager fp32", "ratio")
    show("ms a decoded token, one thread", ("", *header), [["embedded model", *result.values()]])
    return result


def _round(step: Callable[[int], None]) -> float:
    started = perf_counter()
    for token in range(100, 100 + STEPS):
        step(token)
    return (perf_counter() - started) * 1e3 / STEPS


def _ours() -> Callable[[int], None]:
    config = read_config(EMBEDDED)
    decoder = Decoder(config, read_weights(EMBEDDED, config), packed_format())
    arena = Arena(config, config.context)
    decoder.forward(_context(), arena)

    def step(token: int) -> None:
        if arena.length >= CONTEXT + STEPS:
            arena.truncate(CONTEXT)
        decoder.forward(np.array([token], dtype=np.int32), arena)

    return step


@torch.inference_mode()
def _theirs() -> Callable[[int], None]:
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32, attn_implementation="eager").eval()
    cache = model(torch.as_tensor(_context())[None].long(), use_cache=True).past_key_values

    @torch.inference_mode()
    def step(token: int) -> None:
        if cache.get_seq_length() >= CONTEXT + STEPS:
            cache.crop(-STEPS)
        model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)

    return step


def _context() -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.random.default_rng(0).integers(300, 8000, CONTEXT).astype(np.int32)
