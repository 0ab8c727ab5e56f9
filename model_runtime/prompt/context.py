"""Text of other files in a prompt, in addition to its window; an option chooses and lays out the pieces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

ContextBudget = tuple[int, ...]  # the most tokens of each part with text of other files; none if it is empty


class ContextPiece(Protocol):
    """A piece of another file's text."""

    @property
    def place(self) -> str:
        """The name of the prompt's part that shows it."""
        ...

    @property
    def path(self) -> str:
        """The path that the model reads, relative to the workspace's folder."""
        ...

    @property
    def file(self) -> str:
        """The real path."""
        ...

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the file, from 0, that the text shows."""
        ...

    @property
    def text(self) -> str:
        """The text that the model reads."""
        ...

    @property
    def why(self) -> str:
        """The reason it was chosen, for people."""
        ...


class PromptContext(Protocol):
    """Pieces of other files' text, an immutable value."""

    @property
    def all(self) -> Sequence[ContextPiece]:
        """All pieces, in their order."""
        ...

    @property
    def steady(self) -> PromptContext:
        """The pieces that change seldom."""
        ...

    def without(self, files: Collection[str]) -> PromptContext:
        """Return the pieces that are from none of these files, by their real paths; the same value if all are."""
        ...

    def renewed(self, offered: PromptContext) -> PromptContext:
        """Return the pieces to show where the cursor rests: the offer, with pieces of this context that it lacks."""
        ...


class NoContext:
    """No pieces."""

    all: tuple[ContextPiece, ...] = ()

    def __init__(self) -> None:
        self.steady: PromptContext = self

    def without(self, files: Collection[str]) -> PromptContext:
        """Return no pieces."""
        return self

    def renewed(self, offered: PromptContext) -> PromptContext:
        """Return the offer."""
        return offered


NO_CONTEXT = NoContext()
