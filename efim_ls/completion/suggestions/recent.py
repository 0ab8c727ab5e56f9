"""The last suggestions of a document: what is left of them while the user types through."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from model_runtime.counts.view import MemoryView
from model_runtime.engine.probability import TextProbability
from model_runtime.prompt.excerpts import NO_EXCERPTS, Excerpts

MOST_SUGGESTIONS = 16  # per document
NEARBY = 500  # characters on each side that, with both lengths, identify a place


@dataclass(frozen=True)
class PastSuggestion:
    r"""A suggestion and its place: the lengths of the text before and after the cursor, and the nearest of it.

    Lines of `text` end in \n, whatever ends those of the document. `likelihood` is that of the text, None if all of
    it is shown however likely it is. `others` is the hash of the other open texts, and `version` that of the memory.
    `excerpts` of other files stood in the prompt.
    """

    start: int
    before: str
    remaining: int
    after: str
    text: str
    likelihood: TextProbability | None
    others: int
    version: int | None
    excerpts: Excerpts

    def typed(self, text: str, cursor: int, others: int, version: int | None) -> int | None:
        """Return how many of its characters stand before the cursor, None if others do or anything else changed."""
        same = (
            (others, version) == (self.others, self.version)
            and len(text) - cursor == self.remaining
            and 0 <= cursor - self.start <= 2 * len(self.text)
            and text.startswith(self.after, cursor)
            and text.startswith(self.before, self.start - len(self.before))
        )
        typed = text[self.start : cursor].replace("\r\n", "\n").replace("\r", "\n") if same else ""
        return len(typed) if same and self.text.startswith(typed) else None


@dataclass(frozen=True)
class Remainder:
    """What is left of a suggestion after its first `typed` characters."""

    suggestion: PastSuggestion
    typed: int

    @property
    def text(self) -> str:
        """The text that is left; not empty."""
        return self.suggestion.text[self.typed :]


class RecentSuggestions:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Start without suggestions."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST_SUGGESTIONS)

    def add(
        self,
        text: str,
        cursor: int,
        suggested: str,
        others: tuple[str, ...] = (),
        likelihood: TextProbability | None = None,
        memory: MemoryView | None = None,
        excerpts: Excerpts = NO_EXCERPTS,
    ) -> None:
        """Remember a suggestion, with the likelihood of its text if only a likely beginning is shown."""
        before, after = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY]
        beside = hash(others), memory and memory.version
        made = PastSuggestion(cursor, before, len(text) - cursor, after, suggested, likelihood, *beside, excerpts)
        alike = self._left(text, cursor, others, memory, excerpts)
        known = next((left for left in alike if left.text == suggested), None)
        if known is None:
            self._suggestions.append(made)
        else:
            self.renew(known)
            if likelihood is None:
                self._suggestions[-1] = replace(known.suggestion, likelihood=None)

    def renew(self, left: Remainder) -> None:
        """Make the suggestion of which something is left the latest one."""
        self._suggestions.remove(left.suggestion)
        self._suggestions.append(left.suggestion)

    def left(
        self,
        text: str,
        cursor: int,
        others: tuple[str, ...] = (),
        memory: MemoryView | None = None,
        excerpts: Excerpts | None = None,
    ) -> Remainder | None:
        """Return what is left of the latest suggestion whose beginning stands before the cursor, else None.

        With `excerpts`, the suggestion must have been made with them.
        """
        return next(self._left(text, cursor, others, memory, excerpts), None)

    def is_typed_through(self, text: str, cursor: int, others: tuple[str, ...], memory: MemoryView | None) -> bool:
        """Return whether a part of a suggestion stands before the cursor, and the rest of it is left."""
        return any(left.typed for left in self._left(text, cursor, others, memory, None))

    def _left(
        self,
        text: str,
        cursor: int,
        others: tuple[str, ...],
        memory: MemoryView | None,
        excerpts: Excerpts | None,
    ) -> Iterator[Remainder]:
        beside = hash(others), memory and memory.version
        for made in reversed(self._suggestions):
            if excerpts is not None and made.excerpts != excerpts:
                continue
            typed = made.typed(text, cursor, *beside)
            if typed is not None and typed < len(made.text):
                yield Remainder(made, typed)
