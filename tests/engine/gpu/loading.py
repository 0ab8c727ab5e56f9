"""Loads tiny models as a user's settings would, on a device that a test pretends to have."""

from __future__ import annotations

from pathlib import Path

from model_runtime.decoder.gpu.device import Device
from model_runtime.decoder.gpu.graphs import Replay
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import LoadedModel, load


def load_here(folder: Path, wanted: Device) -> LoadedModel:
    return load(
        read_checkpoint(folder),
        device=wanted,
        weights="fp32",
        threads=1,
        capacity=400,
        kv_memory_mib=1,
        ngrams=False,
        progress=lambda stage, percent: None,
    )


def unrecorded(step: Replay) -> Replay:
    """A step that is computed each time, instead of a recorded one."""
    return step
