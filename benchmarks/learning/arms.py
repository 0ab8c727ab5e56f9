"""Trains networks that differ in a part on the same rows, and compares them on held-out text.

python -m benchmarks.learning.arms --corpus corpus --tokenizer model_runtime/embedded/python --out arms

An arm takes about half an hour on one core.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.learning.held_out import HeldOut
from benchmarks.table import show
from efim_lab.gate import network
from efim_lab.gate.network import EMBEDDED_SHAPE, Shape
from efim_lab.workshop.training import objective
from efim_lab.workshop.training.loop import Learner
from efim_lab.workshop.training.native.gradients import NativeGradients
from efim_lab.workshop.training.native.muon import KernelMuon
from efim_lab.workshop.training.samples.stream import Batches, ShardSource

ROW, STEP, RATE, WARMUP, DECAY, CLIP = 512, 4096, 3e-3, 250_000, 0.35, 1.0
LLAMA, WHOLE = "Llama", "all parts"
PARTS = ("head_norms", "head_gates", "token_values", "zero_outputs")
ARMS: dict[str, tuple[Shape, float]] = {  # the shape, and how many times --tokens it reads
    LLAMA: (Shape(), 1.0),
    f"{LLAMA}, 1.3 times the tokens": (Shape(), 1.3),
    WHOLE: (EMBEDDED_SHAPE, 1.0),
    **{f"without {part}": (replace(EMBEDDED_SHAPE, **{part: False}), 1.0) for part in PARTS},
}


def train(shape: Shape, source: ShardSource, budget: int) -> network.EfimForCausalLM:
    """Train a network on the source's first rows; the rate rises, stays, and falls to zero over the last share."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    model = network.build(replace(shape, context=ROW))
    learner = Learner(model, objective.optimizers(model, RATE, KernelMuon), NativeGradients(model))
    batches = Batches(source)
    try:
        for tokens in range(0, budget, STEP):
            rows = torch.from_numpy(batches.take(STEP // ROW, ROW))  # pyright: ignore[reportUnknownMemberType]
            rate = RATE * min(1.0, (tokens + STEP) / WARMUP) * min(1.0, (1 - tokens / budget) / DECAY)
            loss = learner.descend(rows, rate, CLIP)
            if tokens // STEP % 100 == 0:
                print(f"{tokens / 1e6:.1f} million tokens: {loss:.3f}", flush=True)
    finally:
        batches.close()
    return model


def compare(losses: dict[str, dict[str, np.ndarray]], held_out: HeldOut) -> list[tuple[str, ...]]:
    """Return a row for each arm: nats a token, and how many more than all parts have, alone and with counts."""
    rows: list[tuple[str, ...]] = []
    for name, found in losses.items():
        cells = [name]
        for kind in ("alone", "counted"):
            more = held_out.difference(found[kind], losses[WHOLE][kind])
            cells += [f"{found[kind].mean():.3f}", f"{more.value:+.3f} [{more.low:+.3f}, {more.high:+.3f}]"]
        rows.append(tuple(cells))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the arms that the folder lacks, print a table, then one JSON object as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.arms")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=8.0, help="millions")
    parser.add_argument("--only", choices=ARMS, nargs="*", default=list(ARMS), help=f"in addition to {WHOLE!r}")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    held_out = HeldOut(given.corpus / "heldout.jsonl", given.tokenizer)
    source = ShardSource(given.corpus / "train.jsonl", given.tokenizer)
    losses: dict[str, dict[str, np.ndarray]] = {}
    for name in dict.fromkeys((WHOLE, *given.only)):  # the others are compared with it
        kept = given.out / f"{name}.npz"
        if not kept.exists():
            shape, times = ARMS[name]
            alone = held_out.losses(train(shape, source, int(given.tokens * times * 1e6)))
            np.savez(kept, alone=alone, counted=held_out.with_counts(alone))
        losses[name] = dict(np.load(kept))
    header = ("arm", "nats", "more than all parts", "with counts", "more than all parts")
    show("held-out text", header, compare(losses, held_out))
    figures = {name: {kind: float(each.mean()) for kind, each in found.items()} for name, found in losses.items()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
