"""The trainer for CPUs, compared with autograd: tokens a second, and the loss of both on the same rows.

python -m benchmarks.training
python -m benchmarks.training --corpus DIR --tokenizer DIR      # the losses, too: most of an hour
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from benchmarks.table import show
from efim_lab.gate import network
from efim_lab.workshop.training import objective
from efim_lab.workshop.training.autograd.muon import StackedMuon
from efim_lab.workshop.training.loop import AutogradGradients, Learner
from efim_lab.workshop.training.native.gradients import NativeGradients
from efim_lab.workshop.training.native.muon import KernelMuon
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.stream import Batches, ShardSource
from efim_lab.workshop.training.trainer import PLANS

REPEATS = 7
STEP = 4096  # tokens; what steps were before ours
LONG_STEP = PLANS["cpu"].tokens_per_step
RATE, WARMUP, CLIP = 3e-3, 60, 1.0
CURVE = 2_000_000  # tokens
STRETCH = 200_000  # tokens of which a curve gives the mean


def side(native: bool) -> Learner:
    """Make one way to train: a separate model, from the same random weights, and its optimizers."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    model = network.build(network.EMBEDDED_SHAPE)
    model.train()
    optimizers = objective.optimizers(model, RATE, KernelMuon if native else StackedMuon)
    if native:
        return Learner(model, optimizers, NativeGradients(model))
    compiled = torch.compile(dynamic=False)(objective.loss_of)  # pyright: ignore[reportUnknownMemberType]
    return Learner(model, optimizers, AutogradGradients(partial(compiled, model), STEP))


def speed(threads: int, length: int) -> tuple[float, float, float]:
    """Return the medians of the tokens a second of autograd, ours, and ours in the plan's steps, which take turns."""
    torch.set_num_threads(threads)
    theirs, ours = side(native=False), side(native=True)
    cases = [(theirs, STEP), (ours, STEP), (ours, LONG_STEP)]
    seconds: list[list[float]] = [[] for _ in cases]
    for _ in range(1 + REPEATS):  # the first time compiles
        for (learner, tokens), times in zip(cases, seconds, strict=True):
            rows = torch.randint(len(bpe.SPECIAL), network.Shape().vocabulary, (tokens // length, length))
            before = perf_counter()
            learner.descend(rows, RATE, CLIP)
            times.append(perf_counter() - before)
    first, second, third = (tokens / median(times[1:]) for (_, tokens), times in zip(cases, seconds, strict=True))
    return first, second, third


def curves(corpus: Path, tokenizer: Path) -> list[tuple[int, float, float]]:
    """Train both sides on the same rows; return the mean losses of autograd and ours up to a number of tokens."""
    sides = [side(native=False), side(native=True)]
    found: list[tuple[int, float, float]] = []
    losses: list[tuple[float, ...]] = []
    steps = CURVE // STEP
    for step, rows in enumerate(_rows(corpus, tokenizer, steps), 1):
        rate = RATE * min(1.0, step / WARMUP) * (1 - (step - 1) / steps)
        losses.append(tuple(each.descend(rows, rate, CLIP) for each in sides))
        if len(losses) * STEP >= STRETCH or step == steps:
            theirs, ours = (sum(each) / len(each) for each in zip(*losses, strict=True))
            found.append((step * STEP, theirs, ours))
            print(f"{step * STEP / 1e6:.1f} million tokens: {theirs:.4f}, {ours:.4f}", flush=True)
            losses = []
    return found


def _rows(corpus: Path, tokenizer: Path, steps: int) -> Iterator[Tensor]:
    """Yield rows without markers: ours would see samples begin there, and attend to less than autograd does."""
    batches = Batches(ShardSource(corpus / "train.jsonl", tokenizer))
    try:
        for _ in range(steps):
            ids: Tensor = torch.from_numpy(batches.take(STEP // 512, 512))  # pyright: ignore[reportUnknownMemberType]
            yield ids.masked_fill((ids >= 0) & (ids < len(bpe.SPECIAL)), len(bpe.SPECIAL))
    finally:
        batches.close()


def main() -> None:
    """Print the tables, then one JSON object as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    arguments = parser.parse_args()
    cases = [(threads, length) for threads in (1, 2) for length in (512, 2048)]
    found = {f"{threads} threads, rows of {length}": speed(threads, length) for threads, length in cases}
    table = [
        (name, f"{theirs:,.0f}", f"{ours:,.0f}", ours / theirs, f"{long:,.0f}", long / theirs)
        for name, (theirs, ours, long) in found.items()
    ]
    header = ("steps of tokens:", f"autograd, {STEP:,}", f"ours, {STEP:,}", "ratio", f"ours, {LONG_STEP:,}", "ratio")
    show("training, tokens a second", header, table)
    results: dict[str, object] = {"tokens_per_second": found}
    if arguments.corpus:
        results["losses"] = losses = curves(arguments.corpus, arguments.tokenizer)
        rows = [(f"{tokens / 1e6:.1f}", f"{theirs:.4f}", f"{ours:.4f}") for tokens, theirs, ours in losses]
        show("mean loss, nats", ("million tokens", "autograd", "ours"), rows)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
