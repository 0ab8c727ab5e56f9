"""Tells one ghost from the next in the texts shown to a typist who accepts nothing.

A ghost is the grey text at the cursor. It stands from the key before which it appears for as long as

- the keys pressed are the characters of its text, and
- before each next key, the rest of it is shown, or a longer text that begins with the rest.

Everything else ends it: another key (which refutes it), nothing shown, all of it typed, or a text that does not begin
with the rest. So a ghost that grows stays the same. A ghost whose end changes or is cut off becomes a new ghost,
because the text on the screen changed where nobody typed. A ghost that goes and comes back is new, too.

A ghost is judged by the text with which it appears: `right` if the file goes on with all of it; `begins` if the file
goes on with its first word, which ends in the file where it ends in the ghost; else `wrong`. A longer text that it
grows into, and the rest of it once its first word is typed, are judged in the same way at each key that shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from efim_lab.gate.evaluation.places.cursors import begun_word
from efim_lab.gate.evaluation.typist.keys import TypedKey

GhostKind = Literal["right", "begins", "wrong"]


@dataclass(frozen=True)
class Ghost:
    """One ghost: the `keys` before which it stands, at least one."""

    keys: tuple[TypedKey, ...]

    @property
    def text(self) -> str:
        """The text with which it appears."""
        return self.keys[0].shown

    @property
    def kind(self) -> GhostKind:
        """How much of that text is right."""
        return kind_shown(self.keys[0])

    @property
    def makes_unknown_word(self) -> bool:
        """Whether it turns the word at the cursor into a word that stands nowhere."""
        return self.keys[0].makes_unknown_word

    @property
    def has_several_lines(self) -> bool:
        """Whether two lines or more of it have text."""
        return sum(bool(line.strip()) for line in self.text.split("\n")) > 1


def kind_shown(key: TypedKey) -> GhostKind:
    """Return how much of the text shown before a key is right."""
    if key.is_right:
        return "right"
    return "begins" if key.is_first_word_right else "wrong"


def ghosts(keys: Sequence[TypedKey]) -> list[Ghost]:
    """Return the ghosts of one typed line in order."""
    found = list[list[TypedKey]]()
    for before, key in zip([None, *keys], keys, strict=False):
        if before and stays(before, key):
            found[-1].append(key)
        elif key.shown:
            found.append([key])
    return [Ghost(tuple(each)) for each in found]


def stays(before: TypedKey, key: TypedKey) -> bool:
    """Return whether the ghost before a key still stands before the next one."""
    pressed, shown = before.pressed, before.shown
    return len(shown) > len(pressed) and shown.startswith(pressed) and key.shown.startswith(shown[len(pressed) :])


def is_refuted(key: TypedKey) -> bool:
    """Return whether a ghost stands before a key that it did not say."""
    return bool(key.shown) and not (key.shown.startswith(key.pressed) or key.pressed.startswith(key.shown))


def refuted_in_word(keys: Sequence[TypedKey]) -> list[int]:
    """Return, for each key of a line, how many ghosts the letters of the word at the cursor have refuted so far."""
    found, refuted = list[int](), 0
    for key in keys:
        found.append(refuted if begun_word(key.typed) else 0)
        refuted = found[-1] + is_refuted(key)
    return found
