"""Composes a prompt's keys and values out of those that other prompts left, and replaces them when there is time."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from model_runtime.cancel import Cancel
from model_runtime.decoder.any_decoder import AnyDecoder, Span
from model_runtime.engine.prefill import Filled, PrefillStep
from model_runtime.ids import NO_IDS, Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import KeysValues, KvLayout, turned
from model_runtime.kv.pool import Pool
from model_runtime.kv.sequence import Quality
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.composition.pieces import SHORTEST, MovedPiece, find_pieces

Rotations = npt.NDArray[np.complex64]  # [context, head_dim / 2]

LEAST_SAVED = 64  # rows: a prompt that lacks fewer of them is computed in one pass

logger = logging.getLogger(__name__)


class Composition(NamedTuple):
    """An arena that holds the prompt `ids`: exact rows up to `start`, then `pieces` with their keys rotated to their
    new places, and rows between them whose keys and values are still missing.
    """

    arena: Arena
    ids: Ids
    start: int
    pieces: Sequence[MovedPiece]

    @property
    def missing(self) -> Ids:
        """The rows that no piece covers, ascending."""
        covered = np.zeros(len(self.ids), dtype=np.bool_)
        covered[: self.start] = True
        for piece in self.pieces:
            covered[piece.new : piece.new + piece.length] = True
        return np.flatnonzero(~covered).astype(np.int32)


class CompositionMethod(Protocol):
    """Chooses the rows of pieces that are computed again, after all that precede them in the prompt."""

    def rows(self, composition: Composition, /) -> Ids:
        """Return rows of pieces, ascending; may change the keys and values of pieces first."""
        ...


class FirstRows:
    """Computes the first `count` rows of each piece again, and no others.

    With few rows that is EPIC (arXiv 2410.15332): a piece's first tokens drew the attention of all that follow when
    it was computed alone, and must not do so in the middle of a prompt. With 32 it is the contiguous repair of an
    edit: what follows a change most closely depends on it most. With 0 keys are rotated and nothing is repaired.
    """

    def __init__(self, count: int) -> None:
        """Compute `count` rows of each piece."""
        self._count = count

    def rows(self, composition: Composition) -> Ids:
        """Return the first rows of each piece, ascending."""
        firsts = [np.arange(p.new, p.new + min(self._count, p.length), dtype=np.int32) for p in composition.pieces]
        return np.concatenate(firsts) if firsts else NO_IDS


# What a setting can name, the first first; others, measured in efim_lab/studies/reuse, cost more and are no closer.
METHODS: Mapping[str, CompositionMethod] = {"moved_text_carefully": FirstRows(32), "moved_text": FirstRows(16)}


class Composed(NamedTuple):
    """What a composition cost: rows `placed` without a pass, and those `computed` of the prompt."""

    placed: int = 0
    computed: int = 0


NOTHING_COMPOSED = Composed()


class Composer:
    """Fills what an arena lacks of a prompt with keys and values of the same tokens in other arenas.

    Composed rows are never copied into others, so that errors do not add up. Used on the engine thread only.
    """

    def __init__(self, decoder: AnyDecoder, method: CompositionMethod) -> None:
        """Use a decoder that can compute rows anywhere and whose rotations are known."""
        assert decoder.rotations is not None
        self._decoder, self._rotations, self._method = decoder, decoder.rotations, method

    def compose(self, arena: Arena, key: SequenceKey, others: Sequence[Arena], cancel: Cancel) -> Composed:
        """Fill an arena with all of a prompt but its last token, whose logits are wanted.

        The arena is cut off where it differs from the prompt. Once `cancel()` is true, it ends within one pass and
        cuts off rows that are not computed yet. Nothing happens if too little is at hand.
        """
        start, wanted = arena.kept(key), key.ids[:-1]
        if len(wanted) - start < LEAST_SAVED:
            return NOTHING_COMPOSED
        sources = [arena, *(each for each in others if each is not arena)]
        usable = [source.ids[: source.rows.first_below(Quality.LOSSY)] for source in sources]
        pieces = [piece._replace(new=piece.new + start) for piece in find_pieces(wanted[start:], usable, SHORTEST)]
        if sum(piece.length for piece in pieces) < LEAST_SAVED:
            return NOTHING_COMPOSED
        composition = self._placed(arena, wanted, start, pieces, sources)
        chosen = self._method.rows(composition)
        rows = np.union1d(composition.missing, chosen).astype(np.int32)
        used = np.setdiff1d(np.arange(start, len(wanted)), rows)
        if len(used):  # rows before the first of them are computed after exact ones
            arena.rows.lower(int(used[0]), Quality.BORROWED)
        self._compute(arena, wanted, rows, cancel)
        return Composed(len(wanted) - start - len(rows), len(rows))

    def recompute(self, arena: Arena, prompt: int, cancel: Cancel) -> int:
        """Replace composed rows by exact ones, in place, until `cancel()` is true; return how many were.

        The rows before are exact, and so is each that is computed after them. The logits after the `prompt` first
        tokens are kept; the engine's past choices, which rest on the replaced rows, are dropped.
        """
        done = 0
        while (start := arena.rows.first_below(Quality.LOSSY)) < arena.length and not cancel():
            end = min(start + self._decoder.chunk, arena.length if start >= prompt else prompt)
            at = np.arange(start, end, dtype=np.int32)
            logits = self._decoder.forward_spans([Span(arena.ids[start:end].copy(), arena, 1, at)])
            arena.rows.renew(start, end)
            if end == prompt:
                arena.keep_logits(logits[0], end)
            arena.answers = None
            done += end - start
        return done

    def _placed(
        self, arena: Arena, ids: Ids, start: int, pieces: Sequence[MovedPiece], sources: Sequence[Arena]
    ) -> Composition:
        """Put all pieces in place; they are copied first, since the arena itself may be a source."""
        copies = [self._copied(sources[piece.source], piece) for piece in pieces]
        arena.truncate(start)
        arena.append(ids[start:])
        for piece, numbers in zip(pieces, copies, strict=True):
            arena.write(arena.excerpt_rows + piece.new, numbers)
        return Composition(arena, ids, start, pieces)

    def _copied(self, source: Arena, piece: MovedPiece) -> KeysValues:
        """Return a copy of a piece's keys and values, as at their new places."""
        planes = zip(source.layout.planes, source.copy_out(piece.old, piece.old + piece.length), strict=True)
        return tuple(
            moved(numbers, self._rotations[plane.rope], piece.old, piece.new) if plane.rotated else numbers
            for plane, numbers in planes
        )

    def _compute(self, arena: Arena, ids: Ids, rows: Ids, cancel: Cancel) -> None:
        for begin in range(0, len(rows), self._decoder.chunk):
            at = rows[begin : begin + self._decoder.chunk]
            if cancel():
                arena.truncate(int(at[0]))
                return
            self._decoder.forward_spans([Span(ids[at], arena, 1, at)])


def moved(keys: npt.NDArray[np.float32], rotations: Rotations, old: int, new: int) -> npt.NDArray[np.float32]:
    """Return keys [layers, kv_heads, tokens, head_dim], computed from place `old` on, as at places from `new` on.

    One rotation in fp32 by the whole distance: turning keys again and again would add up errors.
    """
    if old == new:
        return keys.copy()
    count = keys.shape[2]
    turns = rotations[new : new + count].astype(np.complex128) * rotations[old : old + count].conj()
    return turned(keys, turns.astype(np.complex64))


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
