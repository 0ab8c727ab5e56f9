"""Recent suggestions, so that typing through one, or back into it, gives the rest of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MOST = 16  # suggestions a document
NEARBY = 500  # characters on either side by which a place is known again; with both lengths, not to be mistaken


@dataclass(frozen=True)
class PastSuggestion:
    r"""A suggestion and the place where it was made: sizes of the text around the cursor and the nearest of it.

    Lines of `text` end in \n, whatever ends those of the document. `others` is the hash of the other open texts.
    """

    start: int
    before: str
    remaining: int
    after: str
    text: str
    others: int

    def left(self, text: str, cursor: int, others: int) -> str:
        """What is left of it where its beginning stands before the cursor and nothing else has changed."""
        same = (
            others == self.others
            and len(text) - cursor == self.remaining
            and 0 <= cursor - self.start <= 2 * len(self.text)
            and text.startswith(self.after, cursor)
            and text.startswith(self.before, self.start - len(self.before))
        )
        typed = text[self.start : cursor].replace("\r\n", "\n").replace("\r", "\n") if same else ""
        return self.text[len(typed) :] if same and self.text.startswith(typed) else ""


class RecentSuggestions:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Nothing was suggested yet."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST)

    def add(self, text: str, cursor: int, suggested: str, others: tuple[str, ...] = ()) -> None:
        """Remember what was suggested at a place, once however often what is left of it is suggested again."""
        before, after, beside = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY], hash(others)
        made = PastSuggestion(cursor, before, len(text) - cursor, after, suggested, beside)
        known = next((each for each in self._suggestions if each.left(text, cursor, beside) == suggested), None)
        if known is not None:
            self._suggestions.remove(known)
        self._suggestions.append(known or made)

    def left(self, text: str, cursor: int, others: tuple[str, ...] = ()) -> str:
        """What is left of the latest suggestion whose beginning stands before the cursor, nothing if none is."""
        found = (made.left(text, cursor, hash(others)) for made in reversed(self._suggestions))
        return next((left for left in found if left), "")
