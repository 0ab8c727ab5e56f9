"""The last suggestions of a document: what they depend on, and what is left of them while the user types through."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from efim_ls.completion.suggestions.shown import ShownPart
from efim_ls.request import Request
from efim_ls.text.lines import line_start
from efim_ls.text.suggestion import Suggestion
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.output import TextProbability
from model_runtime.prompt.excerpts import NO_EXCERPTS, Excerpts

MOST_SUGGESTIONS = 16  # per document
_STUB = re.compile(r"\w+\Z")
NEARBY = 500  # characters on each side that, with both lengths, identify a place


class Seen(NamedTuple):
    """What an answer was made with: a suggestion holds only for a request that sees the same.

    `others` is the hash of the other open texts, and `counts` the version of the repository's; the view itself would
    stay in memory with each suggestion. `excerpts` of other files stand in the prompt.
    """

    others: int
    counts: int | None
    excerpts: Excerpts = NO_EXCERPTS

    @classmethod
    def by(cls, request: Request) -> Seen:
        """Return what a request sees before its prompt is planned."""
        return cls(hash(request.others), _version(request.counts))


@dataclass(frozen=True)
class PastSuggestion(Suggestion):
    """A suggestion with what was `seen` when it was made, and its place.

    The place is the lengths of the text before and after the cursor, and the nearest of it. `likelihood` is that of
    the text, None if all of it is shown however likely it is. `word` is what was shown where the model did not guess
    it.
    """

    before: str
    remaining: int
    after: str
    seen: Seen
    likelihood: TextProbability | None
    word: ShownPart | None = None

    def typed(self, text: str, cursor: int) -> int | None:
        """Return how many of its characters stand before the cursor, None if others do or the text has changed."""
        return super().typed(text, cursor) if self._is_at(text, cursor) else None

    def refuted(self, text: str, begun: int, cursor: int) -> bool:
        """Return whether characters that it did not say have been typed since the word at the cursor was `begun`."""
        if self.start >= cursor or not self._is_at(text, cursor) or super().typed(text, cursor) is not None:
            return False
        before = super().typed(text, max(begun, self.start))
        return before is not None and before < len(self.text)

    def _is_at(self, text: str, cursor: int) -> bool:
        return (
            len(text) - cursor == self.remaining
            and text.startswith(self.after, cursor)
            and text.startswith(self.before, self.start - len(self.before))
        )


@dataclass(frozen=True)
class Remainder:
    """What is left of a suggestion after its first `typed` characters."""

    suggestion: PastSuggestion
    typed: int

    @property
    def text(self) -> str:
        """The text that is left; not empty."""
        return self.suggestion.text[self.typed :]

    @property
    def word(self) -> ShownPart | None:
        """What is left of a word that the model has not guessed, None if it has."""
        word = self.suggestion.word
        return word and replace(word, shown=self.text, words=((self.text, word.probability),))


@dataclass(frozen=True)
class Asked:
    """A request, what it sees, and what is left at its cursor of earlier suggestions, whatever those saw.

    `remainders` are the latest suggestion's first. `refuted`: the model has guessed another word than is being typed.
    Made once a request.
    """

    request: Request
    seen: Seen
    remainders: tuple[Remainder, ...]
    refuted: bool = False

    @property
    def left(self) -> Remainder | None:
        """What is left of the latest suggestion that saw the same."""
        return next((each for each in self.remainders if each.suggestion.seen == self.seen), None)

    def showing(self, excerpts: Excerpts) -> Asked:
        """Return the same request with the excerpts that its prompt shows."""
        return replace(self, seen=self.seen._replace(excerpts=excerpts))

    def counting(self, counts: CountsView | None) -> Asked:
        """Return the same request with another view of the repository."""
        seen = self.seen._replace(counts=_version(counts))
        return replace(self, request=replace(self.request, counts=counts), seen=seen)

    @property
    def is_typed_through(self) -> bool:
        """Whether a part of a suggestion stands before the cursor that saw the same, excerpts apart."""
        made = (each.suggestion.seen for each in self.remainders if each.typed)
        return any(seen._replace(excerpts=self.seen.excerpts) == self.seen for seen in made)


class RecentSuggestions:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Start without suggestions."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST_SUGGESTIONS)

    def ask(self, request: Request) -> Asked:
        """Return a request with what is left of the suggestions at its cursor."""
        text, cursor = request.text, request.cursor
        return Asked(request, Seen.by(request), tuple(self._left(text, cursor)), self._is_refuted(text, cursor))

    def add(
        self, asked: Asked, suggested: str, likelihood: TextProbability | None = None, word: ShownPart | None = None
    ) -> None:
        """Remember a suggestion, with the likelihood of its text if only a likely beginning is shown.

        It is a `word` if the model has not guessed it.
        """
        alike = (each for each in asked.remainders if each.suggestion.seen == asked.seen)
        known = next((left for left in alike if left.text == suggested), None)
        if known is None or known.suggestion not in self._suggestions:
            self._suggestions.append(replace(_made(asked, suggested, likelihood), word=word))
            return
        self.renew(known)
        if likelihood is None:
            self._suggestions[-1] = replace(known.suggestion, likelihood=None, word=word)

    def renew(self, left: Remainder) -> None:
        """Make the suggestion of which something is left the latest one."""
        self._suggestions.remove(left.suggestion)
        self._suggestions.append(left.suggestion)

    def _left(self, text: str, cursor: int) -> Iterator[Remainder]:
        for made in reversed(self._suggestions):
            typed = made.typed(text, cursor)
            if typed is not None and typed < len(made.text):
                yield Remainder(made, typed)

    def _is_refuted(self, text: str, cursor: int) -> bool:
        """Return whether one of the model's suggestions for the word at the cursor was another word."""
        stub = _STUB.search(text, max(line_start(text, cursor), cursor - NEARBY), cursor)
        begun = stub.start() if stub else cursor
        guesses = (made for made in self._suggestions if made.likelihood is not None)
        return any(made.refuted(text, begun, cursor) for made in guesses)


def _version(counts: CountsView | None) -> int | None:
    """Return the version of a view of the repository, None if there is none."""
    return counts and counts.version


def _made(asked: Asked, suggested: str, likelihood: TextProbability | None) -> PastSuggestion:
    text, cursor = asked.request.text, asked.request.cursor
    before, after = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY]
    return PastSuggestion(cursor, suggested, before, len(text) - cursor, after, asked.seen, likelihood)
