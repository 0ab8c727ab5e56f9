"""The row of experts on disk: when memory has room for enough of them, and where the others go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.tensor_shapes import count_experts
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.native.decoder import native_missing
from model_runtime.decoder.native.held_experts import PartialFit
from model_runtime.decoder.native.packing import LAYOUT
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.weights.feed_forward import ExpertWeights, FeedForwardTensors
from model_runtime.shelves.experts_on_disk.experts import PlacedExperts, Schedule, least_slots
from model_runtime.shelves.experts_on_disk.file import ExpertRecord, open_experts

FORMATS: tuple[Format, ...] = ("int8", "fp16")  # in which some experts may be on disk
PAGES_SHARE = 8  # that part of the memory is left to the system for the pages that it reads them through


class ExpertPlacement(NamedTuple):
    """Where the experts of a model go: all into a file, and `slots` of them into memory. `key` names the weights."""

    path: Path
    key: str
    slots: int
    schedule: type[Schedule] = Schedule

    @property
    def reason(self) -> str:
        """Return how the experts are held, for people."""
        return f"memory has room for {self.slots:,} experts, and {self.path} has all"

    def hold(self, config: ModelConfig, weights: Weights, form: Format) -> PlacedExperts:
        """Return the experts of all layers, of which some will be in memory; ModelError if the disk has no room."""
        indices = [i for i, layer in enumerate(config.layers) if isinstance(layer.mlp, Experts)]
        spec = config.layers[indices[0]].mlp
        assert isinstance(spec, Experts)
        record = ExpertRecord(config.hidden, spec, form)

        def records(number: int) -> Iterator[npt.NDArray[np.uint8]]:
            index = indices[number]
            parts = FeedForwardTensors(config, weights, f"model.layers.{index}.").joined(config.layers[index].mlp)
            assert isinstance(parts, ExpertWeights)
            made = np.zeros(record.bytes, np.uint8)
            for expert in range(spec.count):
                record.write(parts.weights(expert), made)
                yield made

        shape = len(indices), spec.count, record.bytes
        file = open_experts(self.path, f"{self.key} {form} {LAYOUT}", shape, records)
        return PlacedExperts(spec, record, file, self.schedule(shape[0], spec.count, spec.chosen, self.slots))


def fit_experts(
    config: ModelConfig, wanted: Literal["auto"] | Format, free: int, need: Callable[[Format, int], int]
) -> PartialFit | None:
    """Return the smallest wanted format in which `free` bytes have room for enough experts; None without any.

    `need` returns the bytes that a model takes in a format without a number of its parameters.
    """
    kinds = {layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts)}
    if len(kinds) != 1 or native_missing(config) or not hasattr(os, "preadv"):
        return None
    (experts,) = kinds
    for form in FORMATS:
        room = free - free // PAGES_SHARE - need(form, count_experts(config))
        slots = room // ExpertRecord(config.hidden, experts, form).bytes
        if wanted in ("auto", form) and slots >= least_slots(experts):
            return PartialFit(form, "laying the experts out on disk", partial(_placement, form, slots))
    return None


def _placement(form: Format, slots: int, folder: Path, hashes: Sequence[bytes]) -> ExpertPlacement:
    """Return where the experts of weights with these hashes go."""
    key = hashlib.sha256(b"".join(hashes)).hexdigest()
    return ExpertPlacement(folder / f"{key[:32]}-{form}.safetensors", key, slots)
