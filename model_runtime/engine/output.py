"""The text of an answer in the making: what its tokens spell, where it ends, and how sure the model is of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from model_runtime.engine.sampler import Choice, Sampler


class Rule(Protocol):
    """Says where a suggestion ends."""

    def cut(self, text: str, /) -> int | None:
        """Length of the finished suggestion at the start of `text`, None while it may go on."""
        ...


class Output:
    """What was said after a prompt, token by token.

    `stub` has still to be spelled. `complete` is true once an end token or the rule ended the text. `confidence` is
    the probability of the first line that is not blank, with its end where that is said: of all its tokens together.
    """

    def __init__(self, sampler: Sampler, ends: Collection[int], stub: bytes, rule: Rule) -> None:
        """Nothing is said yet; `ends` are the tokens that end a text."""
        self.stub, self.complete, self.confidence = stub, False, 1.0
        self._sampler, self._ends, self._rule = sampler, ends, rule
        self._spelled = b""

    def append(self, choice: Choice) -> None:
        """Go on with a token."""
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
        """The text up to where the rule ends it; of several lines that a limit cut off, the whole ones."""
        text = _text(self._spelled)
        return text[: self._rule.cut(text)] if self.complete or "\n" not in text else text.rpartition("\n")[0]


def _text(spelled: bytes) -> str:
    return spelled.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
