"""What a loaded model is computed with, on whichever device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from model_runtime.arena.arena import Arena
from model_runtime.decoder.decoder import AnyDecoder


class Runtime(NamedTuple):
    """A decoder, a way to get arenas for it, at most `arenas` of them, and what is told of both.

    `kv` is another wherever keys and values are computed in another way.
    """

    parameters: int

    decoder: AnyDecoder
    arena: Callable[[], Arena]
    arenas: int
    weights: str
    kv: str
    name: str
    reason: str
    attention: str
    attention_reason: str
