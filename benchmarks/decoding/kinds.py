"""Passes of models of other kinds, at a size that fits: with experts, compressed keys, states; and in llama.cpp.

Also prompts of models that spare work in them, compared with the same shapes without.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.decoding.process import CONTEXT, GGUF, OWN, Process, Work
from benchmarks.decoding.shapes import KINDS, MIXTURE, SPARED, checkpoint, write_random
from benchmarks.decoding.sides import OURS, llama_missing
from benchmarks.decoding.speed import timed, write_ggufs
from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.tensor_shapes import computed_shapes, count_active

SECONDS = 4.0  # for the rounds of one column
MOST_READS = 1.5  # of its active weights, that a token may take at int8
PROMPTS = 15  # of each side, in turns
PREFILL = Work("prefill_512", 0, CONTEXT)
WORKS = (
    PREFILL,
    *(Work(f"pass_{tokens}", CONTEXT, tokens) for tokens in (1, 4, 16)),
)
HEADER = ("", "ms a token", "reads of its active weights", "pass of 4", "of 16", "prefill of 512, tokens/s")
SPARED_HEADER = ("", "way", "ms for 512 tokens", "without", "share")
INT8 = f"{OURS} int8"


def measure() -> dict[str, Any]:
    """Milliseconds of each kind and way, on as many threads as there are cores, up to two."""
    threads = min(2, os.cpu_count() or 1)
    found = {kind: _of_kind(kind, threads) for kind in KINDS}
    for kind, each in found.items():
        _show(kind, each)
    spared = {name: _spared(*shapes, threads) for name, shapes in SPARED.items()}
    rows = [(name, each["way"], each["ms"], each["without"], each["share"]) for name, each in spared.items()]
    show(f"prompts of models that spare work in them, {threads} threads", SPARED_HEADER, rows)
    return {"threads": threads, "kinds": found, "prompts": spared}


def _spared(shape: dict[str, Any], without: dict[str, Any], threads: int) -> dict[str, Any]:
    """Time prompts of two shapes in turns, in the fastest way that both can be computed in."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folders = [
            write_random(each, Path(temporary) / name) for name, each in (("with", shape), ("without", without))
        ]
        sides = [stack.enter_context(Process(threads, folder, OWN)) for folder in folders]
        first, other = (dict(each.turn(PREFILL)) for each in sides)
        way = min(first.keys() & other.keys(), key=lambda name: first[name])
        turns = [[each.turn(PREFILL, [way])[0][1][0] for each in sides] for _ in range(PROMPTS)]
    ms, plain = map(median, zip(*turns, strict=True))
    return {"way": way, "ms": ms, "without": plain, "share": median(a / b for a, b in turns)}


def _of_kind(kind: str, threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder, ggufs = checkpoint(kind, Path(temporary) / "model"), Path(temporary)
        config = read_config(folder)
        parameters = sum(map(prod, computed_shapes(config).values()))
        processes = [stack.enter_context(Process(threads, folder, OWN))]
        if not llama_missing() and kind == MIXTURE:
            write_ggufs(folder, ggufs)
            processes.append(stack.enter_context(Process(threads, ggufs, GGUF)))
        rows: dict[str, dict[str, float]] = defaultdict(dict)
        for work in WORKS:  # the prefill leaves the context that the others need
            for name, ms in timed(processes, work, SECONDS).items():
                rows[name][work.name] = ms
        read_ms = processes[0].model["read_ms"]
    reads = rows[INT8]["pass_1"] / read_ms["int8"]
    active = count_active(config)
    return {
        "parameters": parameters,
        "active": active,
        "rows": rows,
        "read_ms": read_ms,
        "reads": reads,
        "met": reads <= MOST_READS,
    }


def _show(kind: str, found: dict[str, Any]) -> None:
    title = f"{kind}: {found['parameters'] / 1e9:.2f}B parameters, {found['active'] / 1e9:.2f}B for a token"
    lines = []
    for name, ms in found["rows"].items():
        form = name.rpartition(" ")[2]
        read = found["read_ms"].get(form)
        reads = f"{ms['pass_1'] / read:.2f}" if read else ""
        rate = f"{CONTEXT / ms['prefill_512'] * 1e3:,.0f}"
        lines.append([name, ms["pass_1"], reads, ms["pass_4"], ms["pass_16"], rate])
    show(title, HEADER, lines)
