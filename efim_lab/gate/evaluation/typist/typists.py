"""Typists: whether they take a suggestion, and what a line then costs them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from os.path import commonprefix

from efim_lab.gate.evaluation.typist.keys import TypedKey

SHORTEST = 2  # characters: accepting one takes as many keys as typing it
LEAST_SAVED = 2  # keys that words accepted one by one must save
PIECE = re.compile(r"\w+|[^\w\s]*\s+|[^\w\s]+")  # what VS Code's key for the next word accepts


@dataclass(frozen=True)
class Taken:
    """Characters taken of a suggestion, and the keys that takes; without characters the next one is typed."""

    characters: int = 0
    presses: int = 0


Typist = Callable[[TypedKey], Taken]


@dataclass(frozen=True)
class Visit:
    """A key before which a typist saw a suggestion, and the typist's choice.

    `presses` entered as much as `entered` keys type, `completed` of them by a suggestion. `new_wrong` are the wrong
    characters shown that did not stand on the screen already.
    """

    key: TypedKey
    entered: int
    presses: int
    completed: int
    new_wrong: int


def by_hand(_: TypedKey) -> Taken:
    """Take nothing."""
    return Taken()


def whole(key: TypedKey) -> Taken:
    """Take, with one key, a suggestion that is right to its end and has two characters or more."""
    return Taken(len(key.shown), 1) if key.is_right and len(key.shown) >= SHORTEST else Taken()


def words(key: TypedKey) -> Taken:
    """Take a suggestion that is right to its end, else its right first words, a key each, if that saves two keys."""
    if (taken := whole(key)).characters:
        return taken
    ends = list(accumulate(len(piece) for piece in PIECE.findall(key.shown)))
    right = [end for end in ends if end <= key.right]
    if right and right[-1] - len(right) >= LEAST_SAVED:
        return Taken(right[-1], len(right))
    return Taken()


TYPISTS: Mapping[str, Typist] = {"by hand": by_hand, "whole": whole, "words": words}


def visits(keys: Sequence[TypedKey], typist: Typist) -> list[Visit]:
    """Return the keys of a line before which a typist sees a suggestion.

    The suggestion before a key depends on the text and on suggestions typed through so far. Accepted text is right,
    and so part of both: asking at keys that are skipped changes nothing, and typing once by hand serves all typists.
    """
    found, at = list[Visit](), 0
    starts = [0, *accumulate(len(key.pressed) for key in keys)]  # characters before each key
    before, before_at = "", -1  # the wrong text shown last, and where it began
    while at < len(keys):
        key = keys[at]
        taken = typist(key)
        entered = bisect_right(starts, starts[at] + taken.characters) - 1 - at
        wrong, wrong_at = key.wrong, starts[at] + key.right
        known = len(commonprefix([wrong, before])) if wrong_at == before_at else 0
        found.append(Visit(key, entered or 1, taken.presses or 1, entered, len(wrong) - known))
        before, before_at = wrong, wrong_at
        at += entered or 1
    return found
