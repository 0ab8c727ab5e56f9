"""Rules for layers that do not keep one row of each token of a sequence. Needs no tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class KeptState(NamedTuple):
    """After how many tokens of a pass states are kept, and the slot that they are written to."""

    tokens: int
    slot: int


class RowRule:
    """The steps of a sequence that a kind of layers takes part in; this rule does nothing in any of them.

    A sequence has its own rules, and passes itself to them: `rows` is a `TokenSequence`, `arena` an `Arena`.
    """

    def resumes_at(self, _rows: Any, length: int) -> int:
        """Return where computing can go on, at or before `length`, once the sequence is truncated there."""
        return length

    def truncated(self, _rows: Any, _length: int) -> None:
        """Forget what follows the first `length` tokens, where computing can go on."""

    def marked(self, _places: Iterable[int]) -> None:
        """Prefer to keep a place to go on from after each of these counts of tokens."""

    def before_pass(self, _rows: Any, _count: int, _wanted: int) -> tuple[KeptState, ...]:
        """Get ready for a pass over the next `count` tokens, the last `wanted` of which get logits.

        Return the states to keep, and where.
        """
        return ()

    def after_pass(self, _rows: Any) -> None:
        """Follow a pass that has ended well."""

    def copied(self, _other: Any, _length: int) -> None:
        """Follow a copy of the first tokens of another sequence, whose rule for the same layers is `other`."""

    def take_in(self, _arena: Any, numbers: list[Any], _count: int) -> list[Any]:
        """Get ready for tokens whose arrays come from elsewhere; return the arrays of keys and values."""
        return numbers

    def with_own(self, numbers: list[Any], _end: int) -> list[Any]:
        """Return the arrays of tokens up to `end` with the arrays that this rule adds to keys and values."""
        return numbers

    def saved(self, _unit: int) -> frozenset[int] | None:
        """Return the places, multiples of `unit`, at which an added array is worth saving; None if it adds none."""
        return None


PLAIN: tuple[RowRule, ...] = ()  # every row is kept, and can be cut off
