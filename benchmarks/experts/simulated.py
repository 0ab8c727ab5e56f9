"""A mixture with a simulated GPU that holds an eighth of it, at this CPU's measured costs and stated others."""

from __future__ import annotations

import argparse
import inspect
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding.shapes import MIXTURE, checkpoint
from benchmarks.environment.bandwidth import read_ms
from benchmarks.table import show
from efim_lab.studies.placement.experts import ExpertCosts, ExpertSimulation, Scores, Way
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.weights import Fp32, read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.kv.arena import DenseArena
from model_runtime.shelves.experts_on_disk.experts import Numbers, Schedule
from model_runtime.shelves.experts_on_disk.file import ExpertRecord
from model_runtime.shelves.experts_on_disk.placement import ExpertPlacement

SHARE = 8
GPU_BYTES = 256e9  # a second, of a laptop's GPU (GeForce RTX 4060: 256 to 272 GB/s)
LINK_BYTES = 12e9  # a second, of eight lanes of PCIe 4.0, of 15.75 that they could carry
TOKENS = 256
MANY = 64  # experts that are read together, since caches hold one
WAYS: dict[Way, str] = {"stay": "CPU alone", "bring": "always brought", "sooner": "where it is done sooner"}
HEADER = ("", "ms a token for its experts", "held %", "brought %", "left to the CPU %")


def measure() -> dict[str, Any]:
    """Milliseconds of a token's experts, by the way to compute experts that the GPU does not hold."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, file = checkpoint(MIXTURE, Path(temporary) / "model"), Path(temporary) / "experts.safetensors"
        config = read_config(folder)
        experts = next(layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts))
        scores, guesses = _recorded(folder, file)
    layers, numbers = len(config.layers), 3 * config.hidden * experts.intermediate
    size = ExpertRecord(config.hidden, experts, "int8").bytes
    cost = ExpertCosts(
        gpu=size / GPU_BYTES * 1e3, cpu=read_ms(MANY * numbers)["int8"] / MANY, link=size / LINK_BYTES * 1e3
    )
    slots = max(layers * experts.count // SHARE, 2 * experts.count)
    found = {
        way: ExpertSimulation(layers, experts.count, experts.chosen, slots, cost, way).run(scores, guesses)
        for way in WAYS
    }
    rows = [(name, found[way].ms, *(100 * share for share in found[way][1:])) for way, name in WAYS.items()]
    show(f"experts with a simulated GPU, which holds {slots} of {layers * experts.count}", HEADER, rows)
    return {"costs": cost._asdict(), "ways": {way: each._asdict() for way, each in found.items()}}


def _recorded(folder: Path, file: Path) -> tuple[Scores, Scores]:
    """Return the routers' scores for each token of a text, and their guesses a layer before."""
    told, guesses = list[Fp32](), list[Fp32]()

    class Recording(Schedule):
        """Records the scores that it is given."""

        def count_tokens(self, layer: int, scores: Fp32, wanted: Numbers) -> None:
            told.append(scores.copy())
            super().count_tokens(layer, scores, wanted)

        def guess(self, layer: int, scores: Fp32) -> list[int]:
            guesses.append(scores.copy())
            return super().guess(layer, scores)

    config = read_config(folder)
    layers, count = (
        len(config.layers),
        next(each.mlp.count for each in config.layers if isinstance(each.mlp, Experts)),
    )
    placement = ExpertPlacement(file, "benchmark", layers * count, Recording)
    decoder = NativeDecoder(config, read_weights(folder, config), "int8", 1, keeper=placement)
    text = np.frombuffer(inspect.getsource(argparse).encode(), np.uint8).astype(np.int32)[:TOKENS]
    arena = DenseArena(config, TOKENS)
    for at in range(TOKENS):
        decoder.forward(text[at : at + 1], arena)
    ahead = np.zeros((TOKENS, layers, count), np.float32)  # of the first layer nothing is guessed
    ahead[:, 1:] = np.concatenate(guesses).reshape(TOKENS, layers - 1, count)
    return np.concatenate(told).reshape(TOKENS, layers, count), ahead
