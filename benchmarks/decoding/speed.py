"""Passes of our decoder, transformers and llama.cpp, by size of model and number of threads, in one run."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, get_args

from benchmarks.decoding import targets
from benchmarks.decoding.process import CONTEXT, GGUF, LONGEST, Process, TakesTurns, Turn, Work
from benchmarks.decoding.shapes import LARGEST, SHAPES, as_llama, checkpoint
from benchmarks.decoding.sides import COMPILED, OURS, TRANSFORMERS, llama_missing
from benchmarks.environment.other_processes import OtherProcesses
from benchmarks.table import show
from efim_lab.gate.replay.report import percentile
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights

THREADS = (1, 2)
SECONDS = {LARGEST: 6.0}  # for the rounds of one column; the others
OTHER_SECONDS = 1.5
MOST = 40  # rounds
QUARTER = 25  # the percentile reported: other load only ever adds

PREFILL = Work("prefill_512", 0, CONTEXT)
LONG_PREFILL = Work("prefill_2048", 0, LONGEST)
STEPS = [Work("pass_1", CONTEXT, 1), Work("pass_4", CONTEXT, 4), Work("pass_16", CONTEXT, 16)]
QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
HEADER = ("", "ms a token", "pass of 4", "of 16", "prefill of 512, tokens/s", "of 2,048")

Figures = dict[str, dict[str, float]]  # milliseconds by row and column


def measure() -> dict[str, Any]:
    """Milliseconds of every way to compute, by size and threads, and which targets are met."""
    if reason := llama_missing():
        print(f"llama.cpp's rows are missing: {reason}")
    found = {size: _of_size(size) for size in SHAPES}
    met = targets.judged(found)
    for size, by_threads in found.items():
        _show(size, by_threads)
    targets.show_all(met)
    return {"sizes": found, "targets": met}


def _of_size(size: str) -> dict[str, Any]:
    """The figures by number of threads."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, ggufs = checkpoint(size, Path(temporary) / "model"), Path(temporary)
        if not llama_missing():
            write_ggufs(folder, ggufs)
        threads = [each for each in THREADS if each <= (os.cpu_count() or 1)]
        return {str(each): _with_threads(size, folder, ggufs, each) for each in threads}


def write_ggufs(folder: Path, target: Path) -> None:
    """Write a checkpoint's weights, as a Llama that llama.cpp can compute, as GGUF files of each kind."""
    from benchmarks.decoding.gguf_file import Kind, write  # gguf is installed for `make bench` only

    tokenizer = folder / "tokenizer.json"
    folder = as_llama(folder, target)
    config = read_config(folder)
    weights = read_weights(folder, config)
    for kind in get_args(Kind):
        write(target / f"{kind}.gguf", config, weights, kind, tokenizer if tokenizer.exists() else None)


def _with_threads(size: str, folder: Path, ggufs: Path, threads: int) -> dict[str, Any]:
    seconds = SECONDS.get(size, OTHER_SECONDS)
    found: Figures = defaultdict(dict)
    others = OtherProcesses()
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(threads, folder))]
        if not llama_missing():
            processes.append(stack.enter_context(Process(threads, ggufs, GGUF)))
        for work in (PREFILL, *STEPS):  # the prefill leaves the context that the others need
            _add(found, work, timed(processes, work, seconds))
        if size == LARGEST:
            _add(found, LONG_PREFILL, timed(processes[:1], LONG_PREFILL, seconds, _contenders(found)))
    return {**processes[0].model, "rows": found, "others": others.share()}


def _add(found: Figures, work: Work, ms: dict[str, float]) -> None:
    for name, value in ms.items():
        found[name][work.name] = value


def timed(
    processes: Sequence[TakesTurns], work: Work, seconds: float, rows: list[str] | None = None
) -> dict[str, float]:
    """Milliseconds of a pass by row; all sides take turns, after an untimed turn: some compile in it."""
    for process in processes:
        process.turn(work, rows)
    rounds = list[Turn]()
    end = perf_counter() + seconds
    while not rounds or (len(rounds) < MOST and perf_counter() < end):
        rounds.append([each for process in processes for each in process.turn(work, rows)])
    best = dict[str, float]()
    for of_side in zip(*rounds, strict=True):
        name = of_side[0][0]
        ms = percentile([ms for _, passes in of_side for ms in passes], QUARTER)
        best[name] = min(ms, best.get(name, ms))
    return best


def _contenders(found: Figures) -> list[str]:
    """The fastest rows of both in a short prefill, less those whose static cache has no room for a longer one."""
    return [
        min(
            (name for name in found if name.startswith(owner) and not name.endswith(COMPILED)),
            key=lambda name: found[name][PREFILL.name],
        )
        for owner in (OURS, TRANSFORMERS)
    ]


def _show(size: str, by_threads: dict[str, Any]) -> None:
    title = f"{size}: passes at {CONTEXT} tokens of context, ms (lower quartiles of turns)"
    show(title, HEADER, [line for threads, found in by_threads.items() for line in _lines(threads, found)])


def _lines(threads: str, found: dict[str, Any]) -> Iterator[list[object]]:
    for name, ms in found["rows"].items():
        rates = [
            f"{work.tokens / ms[work.name] * 1e3:,.0f}" if work.name in ms else "" for work in (PREFILL, LONG_PREFILL)
        ]
        yield [f"{name}, {threads} thread{'s' * (threads != '1')}", *(ms[work.name] for work in STEPS), *rates]
    if (others := found["others"]) is not None:
        yield [f"CPUs taken by others, {threads}", f"{others:.0%}", "", "", "", ""]
    for stored, ms in found["read_ms"].items():
        yield [f"reading {stored} weights once, {threads}", ms, "", "", "", ""]
