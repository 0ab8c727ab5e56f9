"""What the memory of counts costs a decode pass, and how long it takes to build: `python -m benchmarks.memory`.

The repository is the installed Python: its standard library and packages, as far as 3 million tokens. One of its
files is the open document, which no request's view holds.
"""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

from benchmarks.table import show
from model_runtime.arena.arena import Arena
from model_runtime.checkpoint.config import EMBEDDED, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.native.decoder import native_missing
from model_runtime.engine.ngram_cache import read_ngram_cache
from model_runtime.engine.sampler import Sampler
from model_runtime.ids import Ids
from model_runtime.loading.autotune import CpuMethod
from model_runtime.memory.memory import EMPTY
from model_runtime.memory.segment import MemoryDocument
from model_runtime.memory.view import MemoryView
from model_runtime.prompt.tokenizer import Tokenizer

TOKENS = 3_000_000
OPEN = "asyncio/base_events.py"  # 15,000 tokens
WINDOW, PASSES, WARM_UP = 500, 1_400, 50  # tokens of the prompt, passes of each kind, and passes before them
LARGEST = 400_000  # characters of a file


def measure() -> dict[str, float]:
    """Decode the open document token by token, each pass once without a memory and once with it, in turns."""
    tokenizer, load_before = Tokenizer(EMBEDDED / "tokenizer.json"), os.getloadavg()[0]
    documents = list(_documents(tokenizer))
    opened = next(each for each in documents if each.path.endswith(OPEN))
    began = process_time()
    memory = EMPTY.with_changes((), documents)
    built = process_time() - began
    view = memory.without([opened.path])
    without, with_memory = _passes(tokenizer, opened.ids, view)
    looked_up = _look_ups(opened.ids, memory.without([opened.path, documents[0].path]))
    figures = {
        "tokens": memory.tokens,
        "bytes_a_token": memory.bytes / memory.tokens,
        "build_cpu_seconds": built,
        "pass_ms": float(np.median(without)),
        "pass_with_memory_ms": float(np.median(with_memory)),
        "longer_ms": float(np.median(with_memory) - np.median(without)),
        "longer_paired_ms": float(np.median(with_memory - without)),
        "look_up_us": float(np.median(looked_up)),
        "look_up_p95_us": float(np.percentile(looked_up, 95)),
        "load_before": load_before,
    }
    show("memory of counts", ("figure", "value"), figures.items())
    return figures


def _documents(tokenizer: Tokenizer) -> Iterator[MemoryDocument]:
    """Yield the installed Python's files, the standard library's first, up to `TOKENS` tokens."""
    paths, total = sysconfig.get_paths(), 0
    files = [path for folder in ("stdlib", "purelib") for path in sorted(Path(paths[folder]).rglob("*.py"))]
    for path in dict.fromkeys(files):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if total >= TOKENS or len(text) > LARGEST:
            continue
        ids = tokenizer.encode(text)
        total += len(ids)
        yield MemoryDocument(str(path), blake2b(text.encode(), digest_size=16).digest(), ids)


def _passes(tokenizer: Tokenizer, ids: Ids, view: MemoryView) -> tuple[np.ndarray, np.ndarray]:
    """Return the milliseconds of each pass and choice, without the view and with it."""
    config = read_config(EMBEDDED)
    decoder = CpuMethod("int8", native_missing(config) is None).decoder(config, read_weights(EMBEDDED, config), 1)
    sampler, times = Sampler(tokenizer, read_ngram_cache(EMBEDDED)), np.zeros((PASSES, 2))
    half = len(ids) // 2
    arena = Arena(config, WINDOW + PASSES + WARM_UP)
    torch.set_num_threads(1)
    for start in range(half - WINDOW, half, decoder.chunk):
        decoder.forward(ids[start : min(half, start + decoder.chunk)], arena)
    for n in range(-WARM_UP, PASSES):
        at, length = half + WARM_UP + n, arena.length
        for turn in (0, 1) if n % 2 else (1, 0):
            arena.truncate(length)
            began = perf_counter()
            logits = decoder.forward(ids[at : at + 1], arena)
            sampler.pick(logits[0], ids[: at + 1], b"", memory=view if turn else None)
            times[n, turn] = (perf_counter() - began) * 1e3
    return times[:, 0], times[:, 1]


def _look_ups(ids: Ids, view: MemoryView) -> list[float]:
    """Return the microseconds of each look-up, of histories that the view was not just asked about."""
    times = list[float]()
    for at in range(WARM_UP, len(ids)):
        began = perf_counter()
        view.followers(ids[:at])
        times.append((perf_counter() - began) * 1e6)
    return times


if __name__ == "__main__":
    print(json.dumps(measure()))
