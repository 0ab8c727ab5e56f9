"""The text of an answer as it is decoded: what its tokens spell, where it ends, and how sure the model is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from model_runtime.engine.sampler import Choice, Sampler


class Rule(Protocol):
    """Where a suggestion ends."""

    def cut(self, text: str, /) -> int | None:
        """Return the length of the finished suggestion at the start of `text`, or None while it may go on."""
        ...


class Output:
    """The text after a prompt, token by token.

    `stub` has still to be spelled. `complete` is true once an end token or the rule has ended the text. `confidence`
    is the joint probability of all tokens of the first line that is not blank, including its end once that is there.
    """

    def __init__(self, sampler: Sampler, ends: Collection[int], stub: bytes, rule: Rule) -> None:
        """Start empty; `ends` are the tokens that end a text."""
        self.stub, self.complete, self.confidence = stub, False, 1.0
        self._sampler, self._ends, self._rule = sampler, ends, rule
        self._spelled = b""

    def append(self, choice: Choice) -> None:
        """Append a token."""
        if "\n" not in _text(self._spelled).lstrip():
            self.confidence *= self._sampler.probability(choice, self.stub)
        self.complete = choice.token in self._ends
        if not self.complete:
            piece = self._sampler.token_bytes[choice.token]
            self.stub, piece = self.stub[len(piece) :], piece[len(self.stub) :]
            self._spelled += piece
            self.complete = self._rule.cut(_text(self._spelled)) is not None

    @property
    def text(self) -> str:
        """The text up to where the rule ends it; without an end, the whole lines of a text of several."""
        text = _text(self._spelled)
        return text[: self._rule.cut(text)] if self.complete or "\n" not in text else text.rpartition("\n")[0]


def _text(spelled: bytes) -> str:
    return spelled.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
