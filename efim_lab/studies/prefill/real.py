"""`bench plan --real`: times a cold prompt in one process and in two that share it, which must give the same bits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.held_out import model_name
from efim_lab.studies.prefill.costs import PrefillCosts
from efim_lab.studies.prefill.layer_decoder import check_layers
from efim_lab.studies.prefill.measure import LONGEST, measure
from efim_lab.studies.prefill.processes import SplitPrefill, split_prefill
from efim_lab.studies.prefill.schedules import Cuts, balanced_cuts, even_cuts
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.quantization import Format
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.weight_format import choose_method

TRIES = 7  # of each


class Timed(NamedTuple):
    """How a prompt was computed, the processes and the threads of each, the tokens of each process, and seconds.

    The `median` of tries, and the `best`, which others' work on the machine disturbed least.
    """

    how: str
    processes: int
    threads: int
    tokens: list[int]
    median: float
    best: float


class _Prompt(NamedTuple):
    """A prompt, and the model that it is computed with."""

    folder: Path
    config: ModelConfig
    form: Format
    ids: Ids

    def alone(self, threads: int) -> SplitPrefill:
        """Return what one process computes in passes through all layers, as an engine does."""
        decoder = NativeDecoder(self.config, read_weights(self.folder, self.config), self.form, threads)
        arena, seconds, logits = DenseArena(self.config, len(self.ids)), list[float](), None
        for _ in range(TRIES):
            arena.truncate(0)
            begin = perf_counter()
            for start in range(0, len(self.ids), decoder.chunk):
                logits = decoder.forward(self.ids[start : start + decoder.chunk], arena)
            seconds.append(perf_counter() - begin)
        assert logits is not None
        return SplitPrefill(logits[0], arena.planes, seconds)

    def shared(self, cuts: Cuts) -> SplitPrefill:
        """Return what processes of one thread compute that each have the tokens between two cuts."""
        return split_prefill(self.folder, self.form, self.ids, cuts, TRIES)


def run_real(folder: Path) -> None:
    """Time a prompt of the model in `folder`, as long as its context; print a table, and JSON as the last line.

    Raises WorkError or ModelError if the model cannot be computed so, or if bits differ.
    """
    config = read_config(folder)
    config = replace(config, context=min(config.context, LONGEST))
    check_layers(config)
    method, _ = choose_method(config, "auto")
    ids = np.random.default_rng(0).integers(0, config.vocab, config.context, dtype=np.int32)
    timed = _timed(_Prompt(folder, config, method.form, ids), measure(folder).costs)
    alone = timed[0]
    header = ("computed by", "processes", "threads of each", "tokens of each", "ms: median, best", "times as fast")
    rows = [
        (each.how, str(each.processes), str(each.threads), " + ".join(f"{count:,}" for count in each.tokens))
        + (f"{1e3 * each.median:.0f}, {1e3 * each.best:.0f}",)
        + (f"{alone.median / each.median:.2f}, {alone.best / each.best:.2f}",)
        for each in timed
    ]
    print(f"{len(ids):,} tokens, {model_name(folder)}, {method.form}, {TRIES} tries; all have the same bits\n")
    print(markdown.table([header, *rows]) + "\n")
    figures = {"model": model_name(folder), "form": method.form, "tokens": len(ids)}
    print(json.dumps(figures | {"timed": [each._asdict() for each in timed]}))


def _timed(prompt: _Prompt, costs: PrefillCosts) -> list[Timed]:
    tokens = len(prompt.ids)
    first, second = (prompt.alone(threads) for threads in (1, 2))
    _check(first, second)
    passes = "passes through all layers"
    found = [_row(passes, 1, [0, tokens], first), _row(passes, 2, [0, tokens], second)]
    ways = {
        "layer by layer": [0, tokens],
        "an even cut": even_cuts(tokens, 2),
        "a balanced cut": balanced_cuts(costs, tokens, 2),
    }
    for how, cuts in ways.items():
        shared = prompt.shared(cuts)
        _check(first, shared)
        found.append(_row(how, 1, cuts, shared))
    return found


def _row(how: str, threads: int, cuts: Cuts, done: SplitPrefill) -> Timed:
    return Timed(how, len(cuts) - 1, threads, np.diff(cuts).tolist(), median(done.seconds), min(done.seconds))


def _check(one: SplitPrefill, other: SplitPrefill) -> None:
    """Raise WorkError if two computations of a prompt differ in a bit."""
    pairs: Sequence[tuple[object, object]] = [(one.logits, other.logits), *zip(one.planes, other.planes, strict=True)]
    if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs):
        raise WorkError("two processes and one give different bits: build the compiled part again")
