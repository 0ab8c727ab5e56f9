"""Time that the store saves: after restarts, at switches of files, and reading from disk compared with a copy."""

from __future__ import annotations

import asyncio
import inspect
import random
import tempfile
import textwrap
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.table import show
from editor_clients.headless.client import Completion, Editor, editor
from kv_store.block import BLOCK_TOKENS, Block, Name, chain, root
from kv_store.disk.disk_tier import DiskTier
from model_runtime.kv.codec import Form
from model_runtime.kv.layout import KvLayout

REPEATS = 7
# Of a model of 1.5B parameters.
BLOCK_BYTES = BLOCK_TOKENS * KvLayout.keys_and_values(28, 2, 128).token_bytes
SEQUENCE_TOKENS = 1024  # 59 MB of keys and values
MIB = 1 << 20
# A window that fills the context of 2,048 tokens. Nothing is computed ahead, so that a cold start is cold; there is
# only one arena, so that a second file takes it from the first.
SETTINGS = {
    "head_tokens": 1424, "prefetch_seconds_per_minute": 0, "memory_mib": 32, "shared": False,
}  # fmt: skip
TEXT, OTHER = inspect.getsource(textwrap), inspect.getsource(random)
A, B = "file:///store/a.py", "file:///store/b.py"


class Timed(NamedTuple):
    """An answer and the milliseconds to its first new token."""

    ms: float
    done: Completion


def measure() -> dict[str, float]:
    """Return times in milliseconds, medians of repeats; the two sides of a comparison take turns."""
    starts = [asyncio.run(_cold_and_warm()) for _ in range(REPEATS)]
    cold, warm = (median(each[side].ms for each in starts) for side in (0, 1))
    tier, copy = _tier_and_copy()
    result = {
        "window_tokens": sum(starts[0][0].done.costs[part] for part in ("head", "tail", "typed")),
        "cold_ms": cold,
        "restarted_ms": warm,
        "restarted_to_cold": warm / cold,
        "restarted_recomputed": median(each[1].done.costs["recomputed"] for each in starts),
        "same_completion": sum(a.done.text == b.done.text for a, b in starts) / len(starts),
        "switch_ms": median(asyncio.run(_switched()).ms for _ in range(REPEATS)),
        "tier_ms_per_59_mb": tier,
        "copy_ms_per_59_mb": copy,
    }
    show("the store", ("figure", "value"), result.items())
    return result


async def _cold_and_warm() -> tuple[Timed, Timed]:
    """Request the same first completion from two servers, one after the other."""
    with tempfile.TemporaryDirectory() as cache:
        return await _first({"cache_folder": cache}), await _first({"cache_folder": cache})


async def _first(settings: dict[str, object]) -> Timed:
    async with editor({**SETTINGS, **settings}) as headless:
        headless.open(A, TEXT, "python")
        timed = await _timed(headless, A, _cursor(TEXT))
        await headless.settled()
        return timed


async def _switched() -> Timed:
    """Return to a file after another file has taken its arena, and type a text there that was not suggested."""
    with tempfile.TemporaryDirectory() as cache:
        async with editor({**SETTINGS, "cache_folder": cache}) as headless:
            for uri, text in ((A, TEXT), (B, OTHER)):
                headless.open(uri, text, "python")
                await headless.complete(uri, _cursor(text))
                await headless.settled()
            headless.edit(A, _cursor(TEXT), 0, "~")
            timed = await _timed(headless, A, _cursor(TEXT) + 1)
    assert timed.done.costs["fetched"] > timed.done.costs["recomputed"], timed.done
    return timed


async def _timed(headless: Editor, uri: str, cursor: int) -> Timed:
    done = await headless.complete(uri, cursor)
    ms = done.costs["ms"]
    return Timed(ms["plan"] + ms["tokenize"] + ms["restore"] + ms["prefill"], done)


def _cursor(text: str) -> int:
    """Return the end of a line about as many tokens into a text as the head may have."""
    return text.index("\n", 2500)


def _tier_and_copy() -> tuple[float, float]:
    """Read and check blocks from a warm page cache, and copy as many bytes; milliseconds per 59 MB of each."""
    names = chain(root(b"benchmark"), np.arange(SEQUENCE_TOKENS, dtype=np.int32))
    source = np.random.default_rng(0).integers(0, 256, (len(names), BLOCK_BYTES), np.uint8)
    target, times = np.zeros_like(source), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as folder:
        tier = DiskTier.open(Path(folder) / "blocks.kv", bytes(32), BLOCK_BYTES, 128 * MIB, print)
        assert tier is not None
        tier.save(_blocks(names, source))
        for _ in range(2 * REPEATS):
            began = perf_counter()
            read = sum(len(block.data) for block in tier.read(names))
            between = perf_counter()
            np.copyto(target, source)
            times.append((between - began, perf_counter() - between))
            assert read == source.nbytes
        tier.close()
    scale = 59e6 / source.nbytes * 1e3
    return median(each[0] for each in times) * scale, median(each[1] for each in times) * scale


def _blocks(names: list[Name], source: np.ndarray) -> list[Block]:
    chained = zip(names, [root(b"benchmark"), *names], source, strict=False)
    return [Block(name, parent, 1, Form.RAW, False, data) for name, parent, data in chained]


if __name__ == "__main__":
    measure()
