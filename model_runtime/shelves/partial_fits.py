"""The options that hold a model of which memory has no room for all, the first that can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.native.held_experts import PartialFit
from model_runtime.decoder.quantization import Format
from model_runtime.shelves.experts_on_disk.placement import fit_experts

Need = Callable[[Format, int], int]  # bytes of a model in a format, without a number of its parameters
PartialFitRow = Callable[[ModelConfig, Literal["auto"] | Format, int, Need], PartialFit | None]

PARTIAL_FITS: tuple[PartialFitRow, ...] = (fit_experts,)
