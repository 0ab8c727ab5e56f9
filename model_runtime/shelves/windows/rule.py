"""The rule of layers that slide: a token can be computed if all that it sees there are kept."""

from __future__ import annotations

from typing import Any

from model_runtime.row_rules import KeptState, RowRule

SLIDE_UNIT = 512  # kept rows begin at multiples of it, as blocks of attention do in every decoder
KEPT_BEHIND = 448  # rows before the window that stay at least when they slide


class WindowRule(RowRule):
    """Keeps the rows of the last tokens in the planes that slide: those from an arena's `base` on."""

    def __init__(self, window: int, most: int) -> None:
        """See `window` tokens at most, in passes of at most `most`."""
        self._window, self._most = window, most

    def resumes_at(self, rows: Any, length: int) -> int:
        """Return the length if all that the next token sees are kept, else 0."""
        return length if not rows.base or length >= rows.base + self._window - 1 else 0

    def truncated(self, rows: Any, length: int) -> None:
        """Keep all rows again from the start, if nothing is left."""
        if not length:
            rows.base = 0

    def before_pass(self, rows: Any, count: int, _wanted: int) -> tuple[KeptState, ...]:
        """Make room for the next tokens."""
        self._slide(rows, rows.length, rows.length + count)
        return ()

    def take_in(self, arena: Any, numbers: list[Any], count: int) -> list[Any]:
        """Make room for tokens; where arrays have no rows, neither these tokens nor earlier ones are kept."""
        end = arena.length + count
        if any(count > each.shape[2] for each in numbers):
            arena.base = -(-end // SLIDE_UNIT) * SLIDE_UNIT
        else:
            self._slide(arena, arena.length, end)
        return numbers

    def _slide(self, arena: Any, start: int, end: int) -> None:
        """Make room for tokens from `start` to `end`, at most as many as a pass has."""
        if end - arena.base <= min(plane.rows(arena.capacity) for plane in arena.layout.planes if plane.window):
            return
        assert end - start <= self._most
        base = max(0, start - self._window - KEPT_BEHIND) // SLIDE_UNIT * SLIDE_UNIT
        kept = slice(base - arena.base, start - arena.base)
        for plane, numbers in zip(arena.layout.planes, arena.planes, strict=True):
            if plane.window and base < start:
                numbers[:, :, : start - base] = arena.copied(numbers[:, :, kept])
        arena.base = base
