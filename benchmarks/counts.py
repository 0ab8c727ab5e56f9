"""What a step and the memory of counts cost a decode pass, and how long that takes to build.

`python -m benchmarks.memory`. A step follows a pass and chooses a token, by compiled code and in numpy.

The repository is the installed Python: its standard library and packages, up to 3 million tokens. One of its
files is the open document, which no request's view holds.
"""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.weights import read_weights
from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, CountsView
from model_runtime.decoder.native.decoder import native_missing
from model_runtime.engine.ngrams import Ngrams, read_ngrams
from model_runtime.engine.sampler import Sampler
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.weight_format import CpuMethod
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
    counts = EMPTY.with_changes((), documents)
    built = process_time() - began
    view = counts.without([opened.path])
    passes, steps = _passes(tokenizer, opened.ids, view, counts.without([opened.path, documents[1].path]))
    (without, with_counts), (step, step_with_counts) = passes.T, np.median(steps, 0)
    looked_up = _look_ups(opened.ids, counts.without([opened.path, documents[0].path]))
    figures = {
        "tokens": counts.tokens,
        "bytes_a_token": counts.bytes / counts.tokens,
        "build_cpu_seconds": built,
        "pass_ms": float(np.median(without)),
        "pass_with_memory_ms": float(np.median(with_counts)),
        "longer_ms": float(np.median(with_counts) - np.median(without)),
        "longer_paired_ms": float(np.median(with_counts - without)),
        "step_us": float(step[0]),
        "step_in_numpy_us": float(step[1]),
        "step_with_memory_us": float(step_with_counts[0]),
        "step_with_memory_in_numpy_us": float(step_with_counts[1]),
        "look_up_us": float(np.median(looked_up)),
        "look_up_p95_us": float(np.percentile(looked_up, 95)),
        "load_before": load_before,
    }
    show("memory of counts", ("figure", "value"), figures.items())
    return figures


def _documents(tokenizer: Tokenizer) -> Iterator[CountedDocument]:
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
        yield CountedDocument(str(path), blake2b(text.encode(), digest_size=16).digest(), ids)


class InNumpy(Ngrams):
    """The same figures, mixed without the compiled part."""

    @cached_property
    def mixer(self) -> None:
        """None."""
        return None


def _passes(tokenizer: Tokenizer, ids: Ids, view: CountsView, other: CountsView) -> tuple[np.ndarray, np.ndarray]:
    """Return the milliseconds of each pass and step [passes, 2] and the microseconds of steps [passes, 2, 2].

    Passes and steps without the view come first, then those with it; of steps, compiled code comes first, then numpy,
    which asks the other view.
    """
    config, cache = read_config(EMBEDDED), read_ngrams(EMBEDDED)
    assert cache
    decoder = CpuMethod("int8", native_missing(config) is None).decoder(config, read_weights(EMBEDDED, config), 1)
    samplers = [Sampler(tokenizer, each) for each in (cache, InNumpy(**asdict(cache)))]
    times, steps = np.zeros((PASSES, 2)), np.zeros((PASSES, 2, 2))
    half = len(ids) // 2
    arena = DenseArena(config, WINDOW + PASSES + WARM_UP)
    torch.set_num_threads(1)
    for start in range(half - WINDOW, half, decoder.chunk):
        decoder.forward(ids[start : min(half, start + decoder.chunk)], arena)
    for n in range(-WARM_UP, PASSES):
        at, length = half + WARM_UP + n, arena.length
        turns = [(turn, way) for turn in (0, 1) for way in (0, 1)]
        for turn, way in turns if n % 2 else turns[::-1]:
            arena.truncate(length)
            began = perf_counter()
            logits = decoder.forward(ids[at : at + 1], arena)
            passed = perf_counter()
            samplers[way].pick(logits[0], ids[: at + 1], b"", counts=(view, other)[way] if turn else None)
            ended = perf_counter()
            steps[n, turn, way] = (ended - passed) * 1e6
            times[n, turn] = (ended - began) * 1e3 if way == 0 else times[n, turn]
    return times, steps


def _look_ups(ids: Ids, view: CountsView) -> list[float]:
    """Return the microseconds of each look-up, of histories that the view was not just asked about."""
    times = list[float]()
    for at in range(WARM_UP, len(ids)):
        began = perf_counter()
        view.followers(ids[:at])
        times.append((perf_counter() - began) * 1e6)
    return times


if __name__ == "__main__":
    print(json.dumps(measure()))
