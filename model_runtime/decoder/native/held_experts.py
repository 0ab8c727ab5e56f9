"""The protocol of options that hold a model's experts for the compiled part, where memory has no room for all."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Fp32, Weights
from model_runtime.decoder.native.library import NativeMatrix
from model_runtime.decoder.quantization import Format


class Router(NamedTuple):
    """What scores a layer's experts: `weight` [count, padded inputs], and [count] each, or None."""

    weight: Fp32
    bias: Fp32 | None
    correction: Fp32 | None


class ExpertLayer(NamedTuple):
    """A layer's experts as the compiled part sees them; `late` [count] marks those that a pass has to wait for."""

    router: Router
    up: ctypes.Array[NativeMatrix]
    down: ctypes.Array[NativeMatrix]
    late: npt.NDArray[np.uint8]


class HeldExperts(Protocol):
    """All of a model's experts, some of them in memory; the compiled part calls `fetch` and `wait` in a pass."""

    fetch: Any
    wait: Any

    def add_layer(self, router: Router, /) -> ExpertLayer:
        """Add the next layer; its matrices point into memory at any time."""
        ...

    def raise_error(self) -> None:
        """Raise the error of a pass that is over, if it had one."""
        ...


class ExpertKeeper(Protocol):
    """Holds the experts of one model; `reason` says how, for people."""

    @property
    def reason(self) -> str:
        """Return how they are held."""
        ...

    def hold(self, config: ModelConfig, weights: Weights, form: Format, /) -> HeldExperts:
        """Return the experts of all layers; raises ModelError if there is no room for them."""
        ...


class PartialFit(NamedTuple):
    """How memory can hold a model in part: in a format, with a keeper for the rest.

    `keep` takes a folder for that, and the hashes of the model's files. `doing` says to people how it begins.
    """

    form: Format
    doing: str
    keep: Callable[[Path, Sequence[bytes]], ExpertKeeper]
