"""The cost of letting transformers compute a model that our own decoder also knows; both in torch, one thread."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch

from benchmarks.decoding.process import CONTEXT, Turn, Work, turn
from benchmarks.decoding.shapes import LARGEST, SHAPES, SMALLEST, checkpoint
from benchmarks.decoding.sides import Named, Own
from benchmarks.decoding.speed import timed
from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import CHUNK
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.hf.config import hf_config
from model_runtime.decoder.hf.load import load_hf_decoder
from model_runtime.decoder.linear import packed_format

SECONDS = {LARGEST: 20.0}  # for the rounds of one kind of pass; the others
OTHER_SECONDS = 2.0
FIRST = Work("prefill_512", 0, CONTEXT)  # it leaves the context that the next one needs
WORKS = {"a token": Work("pass_1", CONTEXT, 1), "prefill of 64": Work("prefill_64", 0, CHUNK)}
OURS, FOREIGN = "ours", "transformers"
SIZES = [size for size in SHAPES if size != SMALLEST]  # transformers cannot compute that one's isolated excerpts
HEADER = ("ms, one thread", *(f"{pass_}, {who}" for pass_ in WORKS for who in (OURS, FOREIGN)))

Figures = dict[str, dict[str, float]]  # milliseconds by kind of pass and side, and their ratio


class Both:
    """The same weights twice."""

    def __init__(self, folder: Path) -> None:
        config, form = read_config(folder), packed_format()
        own = Decoder(config, read_weights(folder, config), form)
        foreign = load_hf_decoder(folder, hf_config(folder), form)
        capacity = CONTEXT + CHUNK
        self._sides = [Named(OURS, Own(own, capacity)), Named(FOREIGN, Own(foreign, capacity))]

    def turn(self, work: Work, rows: list[str] | None = None) -> Turn:
        """Let both compute, one after the other."""
        return turn(self._sides, work)


def measure() -> dict[str, Figures]:
    """Milliseconds of passes by size of model: the larger it is, the less the steps of transformers matter."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        found = {size: _of_size(size, Path(temporary) / size) for size in SIZES}
    show(f"what our decoder does not know, {packed_format()} weights", HEADER, map(_row, found, found.values()))
    return found


def _of_size(size: str, folder: Path) -> Figures:
    both, seconds = Both(checkpoint(size, folder)), SECONDS.get(size, OTHER_SECONDS)
    timed([both], FIRST, 0)
    return {work.name: _compared(timed([both], work, seconds)) for work in WORKS.values()}


def _compared(ms: dict[str, float]) -> dict[str, float]:
    return {**ms, "ratio": ms[FOREIGN] / ms[OURS]}


def _row(size: str, figures: Figures) -> list[object]:
    return [size, *(figures[work.name][who] for work in WORKS.values() for who in (OURS, FOREIGN))]


if __name__ == "__main__":
    print(json.dumps(measure()))
