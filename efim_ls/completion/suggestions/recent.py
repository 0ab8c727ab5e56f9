"""The last suggestions of a document: their inputs, and the remainders while the user types through."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from efim_ls.completion.suggestions.sure import ShownPart
from efim_ls.request import Request
from efim_ls.text.document import Suggestion
from efim_ls.text.lines import line_start
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.output import TextProbability
from model_runtime.prompt.context import NO_CONTEXT, PromptContext

MOST_SUGGESTIONS = 16  # per document
_STUB = re.compile(r"\w+\Z")
NEARBY = 500  # characters on each side that, with both lengths, identify a place


class Seen(NamedTuple):
    """What an answer was made with: a suggestion holds only for a request that sees the same.

    `others` is the hash of the other open texts, and `counts` the version of the repository's; the view itself would
    stay in memory with each suggestion. The `context` is what the prompt shows of other files.
    """

    others: int
    counts: int | None
    context: PromptContext = NO_CONTEXT

    @classmethod
    def by(cls, request: Request) -> Seen:
        """Return what a request sees before its prompt is planned."""
        return cls(hash(request.others), _version(request.counts))


@dataclass(frozen=True)
class PastSuggestion(Suggestion):
    """A suggestion with the inputs `seen` when it was made, and its place.

    The place is the lengths of the text before and after the cursor, and the nearest of it. `likelihood` is the
    likelihood of the text, None if all of it is shown however likely it is. `word` is the shown word where the model
    did not guess it. `source` says in plain words who did, if that was another model.
    """

    before: str
    remaining: int
    after: str
    seen: Seen
    likelihood: TextProbability | None
    word: ShownPart | None = None
    source: str = ""

    def is_around(self, text: str, cursor: int) -> bool:
        """Return whether a text is the one around it, except for text typed since, up to the cursor."""
        return (
            len(text) - cursor == self.remaining
            and text.startswith(self.after, cursor)
            and text.startswith(self.before, self.start - len(self.before))
        )

    def went_on(self, text: str, begun: int) -> bool:
        """Return whether its beginning was typed before the word at the cursor started, and more was to come."""
        before = self.typed(text, max(begun, self.start))
        return before is not None and before < len(self.text)


@dataclass(frozen=True)
class Remainder:
    """The rest of a suggestion after its first `typed` characters."""

    suggestion: PastSuggestion
    typed: int

    @property
    def text(self) -> str:
        """The text that is left; not empty."""
        return self.suggestion.text[self.typed :]

    @property
    def word(self) -> ShownPart | None:
        """The rest of a word that the model has not guessed, None if it has."""
        word = self.suggestion.word
        return word and replace(word, shown=self.text, words=((self.text, word.probability),))


@dataclass(frozen=True)
class Asked:
    """A request, its inputs, and the rests of earlier suggestions at its cursor, whatever their inputs.

    `remainders` are the latest suggestion's first. `refuted`: the model has guessed another word than is being typed.
    Made once a request.
    """

    request: Request
    seen: Seen
    remainders: tuple[Remainder, ...]
    refuted: bool = False

    @property
    def left(self) -> Remainder | None:
        """The rest of the latest suggestion with the same inputs."""
        return next((each for each in self.remainders if each.suggestion.seen == self.seen), None)

    def showing(self, context: PromptContext) -> Asked:
        """Return the same request with what its prompt shows of other files."""
        return replace(self, seen=self.seen._replace(context=context))

    def counting(self, counts: CountsView | None) -> Asked:
        """Return the same request with another view of the repository."""
        seen = self.seen._replace(counts=_version(counts))
        return replace(self, request=replace(self.request, counts=counts), seen=seen)

    @property
    def is_typed_through(self) -> bool:
        """Whether a part of a suggestion stands before the cursor that saw the same, whatever its context."""
        made = (each.suggestion.seen for each in self.remainders if each.typed)
        return any(seen._replace(context=self.seen.context) == self.seen for seen in made)


class RecentSuggestions:
    """The last suggestions of one document. Used on the engine thread only."""

    def __init__(self) -> None:
        """Start without suggestions."""
        self._suggestions: deque[PastSuggestion] = deque(maxlen=MOST_SUGGESTIONS)

    def ask(self, request: Request) -> Asked:
        """Return a request with the rests of suggestions at its cursor."""
        text, cursor = request.text, request.cursor
        left, other = list[Remainder](), list[PastSuggestion]()
        for made in reversed(self._suggestions):
            if not made.is_around(text, cursor):
                continue
            typed = made.typed(text, cursor)
            if typed is None:
                other.append(made)
            elif typed < len(made.text):
                left.append(Remainder(made, typed))
        return Asked(request, Seen.by(request), tuple(left), _is_refuted(other, text, cursor))

    def add(
        self,
        asked: Asked,
        suggested: str,
        likelihood: TextProbability | None = None,
        word: ShownPart | None = None,
        source: str = "",
    ) -> None:
        """Remember a suggestion, with the likelihood of its text if only a likely beginning is shown.

        It is a `word` if the model has not guessed it, and from the `source` if another model has.
        """
        alike = (each for each in asked.remainders if each.suggestion.seen == asked.seen)
        known = next((left for left in alike if left.text == suggested), None)
        if known is None or known.suggestion not in self._suggestions:
            self._suggestions.append(replace(_made(asked, suggested, likelihood), word=word, source=source))
            return
        self.renew(known)
        if likelihood is None:
            self._suggestions[-1] = replace(known.suggestion, likelihood=None, word=word)

    def renew(self, left: Remainder) -> None:
        """Make the suggestion of which something is left the latest one."""
        self._suggestions.remove(left.suggestion)
        self._suggestions.append(left.suggestion)


def _is_refuted(other: Sequence[PastSuggestion], text: str, cursor: int) -> bool:
    """Return whether one of the suggestions here that say something else guessed another word at the cursor."""
    stub = _STUB.search(text, max(line_start(text, cursor), cursor - NEARBY), cursor)
    if stub is None:
        return False
    guesses = [made for made in other if made.likelihood is not None and made.start < cursor]
    return any(made.went_on(text, stub.start()) for made in guesses)


def _version(counts: CountsView | None) -> int | None:
    """Return the version of a view of the repository, None if there is none."""
    return counts and counts.version


def _made(asked: Asked, suggested: str, likelihood: TextProbability | None) -> PastSuggestion:
    text, cursor = asked.request.text, asked.request.cursor
    before, after = text[max(0, cursor - NEARBY) : cursor], text[cursor : cursor + NEARBY]
    return PastSuggestion(cursor, suggested, before, len(text) - cursor, after, asked.seen, likelihood)
