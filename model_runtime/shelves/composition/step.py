"""The row of composition: a step of an engine, where a setting asks for it and the decoder allows it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from model_runtime.cancel import Cancel
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.prefill import Filled, PrefillStep
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KvLayout
from model_runtime.kv.pool import Pool
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.composition.composer import Composer, CompositionMethod, FirstRows

# What a setting can name, the first first; others, measured in efim_lab/studies/reuse, cost more and are no closer.
METHODS: Mapping[str, CompositionMethod] = {"moved_text_carefully": FirstRows(32), "moved_text": FirstRows(16)}

logger = logging.getLogger(__name__)


def composition_step(
    approximations: Collection[str], decoder: AnyDecoder, device: str, pool: Pool[Arena]
) -> tuple[PrefillStep | None, str]:
    """Return the step of the first method that is asked for, if there is one and the decoder can; and why."""
    name = next((name for name in METHODS if name in approximations), None)
    if name is None:
        return None, ""
    if cause := _refused(decoder, device):
        logger.warning("text that moved is computed again: %s; shorten 'approximations'", cause[0])
        return None, f"{name} is off: {cause[0]}, {cause[1]}"
    return ComposingStep(Composer(decoder, METHODS[name]), pool), f"{name} is on"


def _refused(decoder: AnyDecoder, device: str) -> tuple[str, str] | None:
    """Return why a decoder's keys and values cannot be composed, in two clauses; None if they can."""
    if device == "cuda" or decoder.rotations is None:
        where = "on a GPU" if device == "cuda" else "by transformers"
        return f"the model is computed {where}", "where keys cannot be moved"
    layout = KvLayout.of(decoder.config)
    if layout.window or layout.states:
        what = "windows slide" if layout.window else "layers have states"
        return f"the model's {what}", "which nothing can be composed of"
    return None


class ComposingStep:
    """Fills arenas with approximate keys and values before an answer, and replaces these when there is time."""

    def __init__(self, composer: Composer, pool: Pool[Arena]) -> None:
        """Compose of what the pool's arenas hold."""
        self._composer, self._pool = composer, pool

    def __call__(self, arena: Arena, key: SequenceKey, cancel: Cancel, ahead: bool) -> Filled:
        """Fill an arena with what others hold of a key's tokens elsewhere; ahead of need, make it exact."""
        if not ahead:
            return Filled(computed=self._composer.compose(arena, key, self._pool.arenas, cancel).computed)
        if (held := arena.common(key)) < len(key.ids):
            held = arena.truncate(held)
        return Filled(computed=self._composer.recompute(arena, held, cancel))
