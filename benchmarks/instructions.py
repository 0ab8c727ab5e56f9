"""Passes of the embedded model with each set of instructions, and in torch: `python -m benchmarks.instructions`.

`avx2` as its argument keeps torch from wider instructions, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, get_args

if sys.argv[1:] == ["avx2"]:  # read when torch is imported
    os.environ |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}

import numpy as np
import torch

from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.native.library import instruction_sets
from model_runtime.decoder.quantization import Format
from model_runtime.kv.arena import DenseArena

ROWS, CONTEXTS = (1, 4, 8, 64), (1100, 256)  # the longest first: a pass leaves what lies before it as it is
TURNS, REPEATS = 15, 5
FBGEMM_AVX2 = 1  # of its enumeration of instruction sets


def measure() -> dict[str, Any]:
    """Milliseconds of a pass on one thread by side, context and rows: medians of turns, of whose repeats the best."""
    torch.set_num_threads(1)
    config = read_config(EMBEDDED)
    weights, capacity = read_weights(EMBEDDED, config), max(CONTEXTS) + max(ROWS)
    sides: dict[str, AnyDecoder] = {
        f"{form}, {each}": NativeDecoder(config, weights, form, 1, each)
        for form in ("fp16", "int8")
        for each in instruction_sets()
    }
    sides |= {f"{form}, torch": Decoder(config, weights, form) for form in get_args(Format)}
    ids = np.random.default_rng(0).integers(0, config.vocab, capacity).astype(np.int32)
    arenas = {name: DenseArena(config, capacity) for name in sides}
    for name, decoder in sides.items():
        decoder.forward(ids[: max(CONTEXTS)], arenas[name])

    def one(name: str, context: int, rows: int) -> float:
        arenas[name].truncate(context)
        began = perf_counter()
        sides[name].forward(ids[context : context + rows], arenas[name])
        return (perf_counter() - began) * 1e3

    found: dict[str, dict[str, float]] = {name: {} for name in sides}
    for context in CONTEXTS:
        for rows in ROWS:
            turns = [
                {name: min(one(name, context, rows) for _ in range(REPEATS)) for name in sides} for _ in range(TURNS)
            ]
            for name in sides:
                found[name][f"{rows} at {context}"] = median(turn[name] for turn in turns)
    columns = [f"{rows} at {context}" for context in sorted(CONTEXTS) for rows in ROWS]
    show(
        "milliseconds of a pass: rows at context",
        ("side", *columns),
        [[n, *(f[c] for c in columns)] for n, f in found.items()],
    )
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["avx2"]:
        lib = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
        lib._ZN6fbgemm14fbgemmForceIsaENS_10inst_set_tE(FBGEMM_AVX2)
    print(json.dumps(measure()))
