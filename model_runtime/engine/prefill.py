"""What fills an arena before the model computes what is left of a prompt."""

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

# Fills an arena with what it lacks of a key's tokens, or some of it, and ends soon after `cancel()` is true. The flag
# says if that is ahead of need: then what a step has approximated before is made exact, and nothing is approximated.
PrefillStep = Callable[[Arena, SequenceKey, Cancel, bool], Filled]
