"""Arenas: preallocated keys and values of one token sequence each, in any memory, and arenas of a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.layout import FP32, SLIDING_PASS, KeysValues, KvLayout, Numbers, Plane, split
from model_runtime.kv.sequence import Quality, TokenSequence
from model_runtime.logits import Logits
from model_runtime.mapped_memory import map_zeros, release_pages
from model_runtime.row_rules import RowRule
from model_runtime.sequence_key import TextsApart
from model_runtime.shelves.states.rule import StateRule
from model_runtime.shelves.windows.rule import WindowRule

# Returns the rule of an arena with such a layout and such states, if it has layers of a kind.
ROW_RULES: tuple[Callable[[KvLayout, Any], RowRule | None], ...] = (
    lambda layout, states: StateRule(layout.kept_states, states) if layout.states else None,
    lambda layout, _: WindowRule(layout.window, SLIDING_PASS) if layout.window else None,
)


def row_rules(layout: KvLayout, states: Any) -> tuple[RowRule, ...]:
    """Return the rules of an arena, which has them for itself; none if every layer keeps all rows."""
    return tuple(rule for row in ROW_RULES if (rule := row(layout, states)))


class Arena(TokenSequence, ABC):
    """Keys and values of one token sequence, and of the excerpts before it.

    Invariant: `[:, :, excerpt_rows + i]` of each of the layout's `planes` holds what the model computed for `ids[i]`
    after `ids[:i]` and the excerpts, if it sees them, for every i < length; what lies beyond is junk. Of layers that
    slide it is `[:, :, i - base]`, for every i from `base` on. Planes are arrays of the kind that the decoder which
    computes here works with; `k` is the first, `v` the second, if there are any. Of layers that have a state,
    `states` [1 + kept, numbers] holds the live ones, then those that are kept, by slot. `logits`, where `logits_at`
    is not -1, follow `ids[:logits_at]`. `answers` is what the engine remembers of the last answer made here: kept on
    truncation; dropped by `copy_prefix`, `change_owner` and `enter`.
    """

    k: Any
    v: Any

    def __init__(
        self, layout: KvLayout, planes: tuple[Any, ...], capacity: int, excerpt_rows: int, states: Any = None
    ) -> None:
        """Start empty, with the planes of a layout, and with `states` of zeros if it has some."""
        super().__init__(capacity, excerpt_rows, row_rules(layout, states))
        self.layout, self.planes, self.states = layout, planes, states
        self.k, self.v = planes[:2] if planes else (None, None)
        self.logits: Logits | None = None
        self.answers: object | None = None

    @abstractmethod
    def write(self, row: int, computed: Iterable[Numbers]) -> None:
        """Write keys and values, one array for each plane, to the rows from `row` on."""

    @abstractmethod
    def read(self, start: int, end: int) -> KeysValues:
        """Return the keys and values of the tokens from `start` to `end`, valid until the arena changes.

        Those that layers which slide have not kept are arrays of no tokens. Of a model with states those after `end`
        tokens follow, [1, 1, 1, numbers], or [1, 1, 0, numbers] if they are not kept.
        """

    def copy_out(self, start: int, end: int) -> KeysValues:
        """Return a copy of the keys and values of the tokens from `start` to `end`."""
        return tuple(plane.copy() for plane in self.read(start, end))

    def copy_in(self, ids: Ids, computed: Sequence[Numbers], quality: Quality) -> None:
        """Append tokens with a copy of keys and values that were computed after the same preceding tokens.

        Where arrays of layers that slide have no tokens, these are not kept, nor earlier tokens. Layers that have a
        state cannot go on until this is truncated to where one came with the tokens.
        """
        numbers = list(computed)
        for rule in self.rules:
            numbers = rule.take_in(self, numbers, len(ids))
        self.write(self.excerpt_rows + self.length, numbers)
        self.append(ids, quality)

    def copy_prefix(self, other: TokenSequence, length: int) -> None:
        """Become the first `length` tokens of `other`, with its keys and values; those that are equal stay."""
        assert isinstance(other, Arena)
        start = min(common_prefix(self.ids, other.ids[:length]), self.rows.first_below(Quality.EXACT))
        for plane, mine, theirs in zip(self.layout.planes, self.planes, other.planes, strict=True):
            same = start if self.base == other.base or not plane.window else 0
            rows = other.rows_of(plane, same, length)
            mine[:, :, rows] = theirs[:, :, rows]
        self.answers = None
        super().copy_prefix(other, length)

    def rows_of(self, plane: Plane, start: int, end: int) -> slice:
        """Return where a plane has the tokens from `start` to `end`; of layers that slide, those that are kept."""
        first = -self.base if plane.window else self.excerpt_rows
        return slice(max(0, first + start), max(0, first + end))

    def rows_read(self, start: int, end: int) -> list[slice]:
        """Return where each plane has these tokens; nowhere if layers that slide have not kept them all."""
        assert 0 <= start <= end <= self.length
        is_kept = start >= self.base
        planes = self.layout.planes
        return [self.rows_of(each, start, end) if is_kept or not each.window else slice(0) for each in planes]

    @staticmethod
    def copied(numbers: Any) -> Any:
        """Return a copy of an array of the kind that an arena holds."""
        return numbers.clone() if hasattr(numbers, "clone") else numbers.copy()

    def keep_logits(self, logits: Logits, at: int) -> None:
        """Copy the logits [vocab] that follow the first `at` tokens, so that the same prompt costs no pass.

        They are copied where they are, without the other rows of their pass.
        """
        self.logits, self.logits_at = self.copied(logits), at

    def give_back(self) -> None:
        """Forget all rows, and give back the memory if it is this arena's own."""
        super().give_back()
        self.logits = self.answers = None

    def change_owner(self) -> None:
        """Begin to serve another frame: past choices of the last frame would hide new ones."""
        self.answers = None

    def enter(self, excerpts: TextsApart) -> bool:
        """Have these excerpts, whose keys and values are to be written next; forget what saw others."""
        entered = super().enter(excerpts)
        if entered:
            self.answers = None
        return entered


class DenseArena(Arena):
    """An arena in separate memory, contiguous and fp32, in which decoders on a CPU compute."""

    k: npt.NDArray[np.float32]
    v: npt.NDArray[np.float32]

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        """Allocate the planes of a model's layout; a page takes memory once written.

        Small pages: the tokens of a short document lie in each head's rows, one huge page apart. Raises MemoryError.
        """
        layout, rows = KvLayout.of(config), config.excerpt_rows + capacity
        self._memory = map_zeros(layout.arena_bytes(rows), in_huge_pages=False).view(np.float32)
        states, planes = np.split(self._memory, [layout.states_bytes // FP32])
        by_slot = states.reshape(-1, layout.state_numbers) if layout.states else None
        super().__init__(layout, split(planes, layout.placed_in_arena(rows)), capacity, config.excerpt_rows, by_slot)

    def write(self, row: int, computed: Iterable[Numbers]) -> None:
        """Write keys and values, one array for each plane, to the rows from `row` on."""
        start = row - self.excerpt_rows
        for layout, plane, numbers in zip(self.layout.planes, self.planes, computed, strict=True):
            tokens = numbers.shape[2]
            rows = self.rows_of(layout, start, start + tokens)
            plane[:, :, rows] = numbers[:, :, tokens - (rows.stop - rows.start) :]

    def read(self, start: int, end: int) -> KeysValues:
        """Return views of the keys and values of the tokens from `start` to `end`."""
        pairs = zip(self.planes, self.rows_read(start, end), strict=True)
        numbers: list[Any] = [plane[:, :, rows] for plane, rows in pairs]
        for rule in self.rules:
            numbers = rule.with_own(numbers, end)
        return tuple(numbers)

    def give_back(self) -> None:
        """Forget all that is here, and return its pages to the system; they are mapped anew once written."""
        super().give_back()
        release_pages(self._memory)
