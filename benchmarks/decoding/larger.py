"""Models of half a billion parameters and more in int8 and int4, and in llama.cpp's formats of as many bits.

`python -m benchmarks.decoding.larger` prints it alone. llama.cpp's files are made by its own quantizer, which keeps
the head in more bits; ours reads few rows of it again as they are stored.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.decoding.process import CONTEXT, GGUF, LONGEST, OWN, Process, Work
from benchmarks.decoding.shapes import LARGEST, SHAPES, write_random
from benchmarks.decoding.sides import LLAMA, OURS, llama_missing
from benchmarks.decoding.speed import THREADS, timed
from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights

# In the shapes of Qwen2.5-Coder.
LARGER: dict[str, dict[str, Any]] = {
    LARGEST: SHAPES[LARGEST],
    "1.5B": SHAPES[LARGEST]
    | {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960},
}
QUANTIZED = {
    "Q8_0": "LLAMA_FTYPE_MOSTLY_Q8_0",
    "Q4_0": "LLAMA_FTYPE_MOSTLY_Q4_0",
    "Q4_K_M": "LLAMA_FTYPE_MOSTLY_Q4_K_M",
}
BESIDE = {"int8": ("Q8_0",), "int4": ("Q4_0", "Q4_K_M")}
SECONDS = 12.0  # for the rounds of one column
WORKS = (Work("prefill_512", 0, CONTEXT), Work("token_at_256", 256, 1), Work("token_at_2048", LONGEST, 1))
FILL = Work("fill", 0, LONGEST)  # the context that tokens behind it need
AS_FAST = {"prefill_512": 2.0, "token_at_256": 1.3, "token_at_2048": 1.3}  # times llama.cpp
HEADER = ("", *(work.name.replace("_", " ") + ", ms" for work in WORKS))


def measure(sizes: tuple[str, ...] = (LARGEST,)) -> dict[str, Any]:
    """Milliseconds by size, threads and format, and how many times as fast as llama.cpp each format is."""
    if reason := llama_missing():
        print(f"larger models are not compared: {reason}")
        return {}
    threads = [each for each in THREADS if each <= (os.cpu_count() or 1)]
    found = {size: _of_size(size, threads) for size in sizes}
    for size, by_threads in found.items():
        for each, rows in by_threads.items():
            title = f"{size}, {each} thread{'s' * (each != '1')}: lower quartiles of turns"
            show(title, HEADER, [[name, *(ms[work.name] for work in WORKS)] for name, ms in rows.items()])
    ratios = {
        f"{size}, {each}, {form} by {theirs}": {
            name: rows[f"{LLAMA} {theirs}"][name] / rows[f"{OURS} {form}"][name] for name in AS_FAST
        }
        for size, by_threads in found.items()
        for each, rows in by_threads.items()
        for form, others in BESIDE.items()
        for theirs in others
    }
    wanted = [name.replace("_", " ") + f" (>= {least})" for name, least in AS_FAST.items()]
    show("times as fast as llama.cpp", ["", *wanted], [[name, *each.values()] for name, each in ratios.items()])
    return {"ms": found, "ratios": ratios}


def _of_size(size: str, threads: list[int]) -> dict[str, dict[str, dict[str, float]]]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_random(LARGER[size], Path(temporary) / "model")
        _quantize(folder, Path(temporary))
        return {str(each): _with_threads(folder, Path(temporary), each) for each in threads}


def _quantize(folder: Path, target: Path) -> None:
    """Write the GGUF files that users of llama.cpp have."""
    from benchmarks.decoding.gguf_file import write  # gguf is installed for `make bench` only

    c: Any = import_module("llama_cpp")
    config, whole = read_config(folder), target / "whole"
    write(whole, config, read_weights(folder, config), "F16")
    for name, kind in QUANTIZED.items():
        options = c.llama_model_quantize_default_params()
        options.ftype = getattr(c, kind)
        if c.llama_model_quantize(str(whole).encode(), str(target / f"{name}.gguf").encode(), options):
            raise RuntimeError(f"llama.cpp cannot quantize to {name}: install the pinned version of llama-cpp-python")


def _with_threads(folder: Path, ggufs: Path, threads: int) -> dict[str, dict[str, float]]:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(Process(threads, folder, OWN, *BESIDE)),
            stack.enter_context(Process(threads, ggufs, GGUF)),
        ]
        rows: dict[str, dict[str, float]] = {}
        for work in WORKS:
            if work.context == LONGEST:
                for process in processes:
                    process.turn(FILL)
            for name, ms in timed(processes, work, SECONDS).items():
                rows.setdefault(name, {})[work.name] = ms
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(tuple(LARGER))))
