"""A suggested text at its place in a document, and its rest while it is typed through."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suggestion:
    r"""A text that was suggested at the offset `start`; its lines end in \n, whatever ends the document's lines."""

    start: int
    text: str

    def typed(self, text: str, cursor: int) -> int | None:
        """Return how many of its characters stand before the cursor, None if others do."""
        if not 0 <= cursor - self.start <= 2 * len(self.text):  # line ends of two characters make it longer
            return None
        typed = text[self.start : cursor].replace("\r\n", "\n").replace("\r", "\n")
        return len(typed) if self.text.startswith(typed) else None

    def left(self, text: str, cursor: int) -> str:
        """Return its rest at the cursor; empty if all of it is typed, or anything else."""
        typed = self.typed(text, cursor)
        return "" if typed is None else self.text[typed:]
