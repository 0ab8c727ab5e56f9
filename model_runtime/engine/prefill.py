"""Steps that fill an arena before the model computes the rest of a prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from model_runtime.cancel import Cancel
from model_runtime.isolated import SequenceKey
from model_runtime.kv.arena import Arena


class Filled(NamedTuple):
    """How many of a prompt's tokens a step has fetched, and how many it has computed."""

    fetched: int = 0
    computed: int = 0


NOTHING_FILLED = Filled()

# Fills an arena with tokens of a key that it lacks, and ends soon after `cancel()` is true. If the flag says that it
# runs ahead of need, a step approximates nothing, and makes its earlier approximations exact.
PrefillStep = Callable[[Arena, SequenceKey, Cancel, bool], Filled]
