"""The steps that options add to the filling of arenas, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection

from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.prefill import PrefillStep
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import Pool
from model_runtime.shelves.composition.composer import composition_step

# Returns what an option adds if one of its approximations is asked for, given a decoder, the device that it is on and
# the arenas that it fills; and what the option says of that, or nothing if none is asked for.
StepRow = Callable[[Collection[str], AnyDecoder, str, Pool[Arena]], tuple[PrefillStep | None, str]]

STEPS: tuple[StepRow, ...] = (composition_step,)


def wanted_steps(
    approximations: Collection[str], decoder: AnyDecoder, device: str, pool: Pool[Arena]
) -> tuple[tuple[PrefillStep, ...], str]:
    """Return the steps of the options that are asked for and can be used, and what all that are asked for say."""
    rows = [row(approximations, decoder, device, pool) for row in STEPS]
    return tuple(step for step, _ in rows if step), "; ".join(said for _, said in rows if said)
