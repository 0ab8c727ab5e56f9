"""What was suggested lately, so that typing through it, or back into it, gives what is left of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from model_runtime.engine import Rule

REMEMBERED = 16  # suggestions a document


@dataclass(frozen=True)
class Suggestion:
    """A suggestion and the text around the cursor where it was made."""

    before: str
    after: str
    text: str

    def ends_with(self, other: Suggestion) -> bool:
        """Whether another one is what is left of this one when its beginning is typed."""
        whole = self.after == other.after and self.before + self.text == other.before + other.text
        return whole and len(self.before) <= len(other.before)


class Shown:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Nothing was suggested yet."""
        self._suggestions: deque[Suggestion] = deque(maxlen=REMEMBERED)

    def add(self, text: str, cursor: int, suggested: str) -> None:
        """Remember what was suggested at a place, once however often what is left of it is suggested again."""
        made = Suggestion(text[:cursor], text[cursor:], suggested)
        known = next((each for each in self._suggestions if each.ends_with(made)), None)
        if known is not None:
            self._suggestions.remove(known)
        self._suggestions.append(known or made)

    def left(self, text: str, cursor: int) -> str:
        """What is left of a suggestion whose beginning stands before the cursor; nothing if there is none."""
        before, after = text[:cursor], text[cursor:]
        for made in reversed(self._suggestions):
            typed = before[len(made.before) :]
            same = after == made.after and before.startswith(made.before) and made.text.startswith(typed)
            if same and len(typed) < len(made.text):
                return made.text[len(typed) :]
        return ""


@dataclass(frozen=True)
class Again:
    """The rule for a text that goes on with a suggestion: it ends where the suggestion ended.

    Otherwise several lines would shrink to one as soon as the first of them is begun.
    """

    left: str
    otherwise: Rule

    def cut(self, text: str) -> int | None:
        """Length of the finished suggestion at the start of `text`, None while it may go on."""
        if text.startswith(self.left):
            return len(self.left)
        return None if self.left.startswith(text) else self.otherwise.cut(text)
