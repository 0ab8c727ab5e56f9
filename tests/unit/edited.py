"""Documents that are edited as users edit them, and edits drawn in text as [-removed-]{+added+}."""

from __future__ import annotations

import re
from typing import NamedTuple

from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.text.document import PAUSE, Document, EditHistory, PastEdit
from efim_ls.text.lines import enclosing_line

MARKS = re.compile(r"(?:\[-(?P<removed>.+?)-\])?(?:\{\+(?P<added>.+?)\+\})?", re.DOTALL)
URI = "file:///a"


class Drawn(NamedTuple):
    """A change: where it is in the text before all changes, and what is replaced by what."""

    at: int
    removed: str
    added: str


class Marked(NamedTuple):
    """A text before its marked changes, and these."""

    before: str
    changes: list[Drawn]

    @classmethod
    def read(cls, text: str) -> Marked:
        before, end, changes = "", 0, list[Drawn]()
        for mark in MARKS.finditer(text):
            if mark[0]:
                before += text[end : mark.start()]
                changes.append(Drawn(len(before), mark["removed"] or "", mark["added"] or ""))
                before += mark["removed"] or ""
                end = mark.end()
        return cls(before + text[end:], changes)


class Edited:
    """A document with its history and cursor; between edits the user pauses."""

    def __init__(self, text: str, language: str) -> None:
        self.document, self.history, self.cursor = Document(URI, language, text), EditHistory(), 0
        self._now = 0.0
        self._made = list[Drawn]()

    def edit(self, at: int, removed: int, added: str, pause: float = 2 * PAUSE) -> None:
        """Replace characters at an offset of the present text."""
        self._now += pause
        old = self.document.text[at : at + removed]
        self.document.splice(at, at + removed, added)
        self.history.follow(PastEdit(URI, at, old, added, self._now))
        self.cursor = at + len(added)

    def replace(self, change: Drawn, by_keys: bool = False) -> None:
        """Make a change that was drawn: at once or key by key."""
        at = change.at + sum(len(each.added) - len(each.removed) for each in self._made if each.at < change.at)
        if by_keys:
            self.edit(at, len(change.removed), "")
            for number, key in enumerate(change.added):
                self.edit(at + number, 0, key, pause=0.1)
        else:
            self.edit(at, len(change.removed), change.added)
        self._made.append(change)

    def take(self, edit: ProposedEdit) -> None:
        """Make an edit that was offered."""
        self.edit(edit.start, edit.end - edit.start, edit.added)

    def take_and_undo(self, edits: NextEdits) -> tuple[ProposedEdit, ProposedEdit | None]:
        """Make the edit that is offered and undo it; return it, and what is offered then."""
        taken = edits.propose(self.document, self.cursor)
        assert taken
        edits.accept(taken)
        self.take(taken)
        edits.propose(self.document, self.cursor)
        self.edit(taken.start, len(taken.added), taken.removed, pause=0.5)
        return taken, edits.propose(self.document, self.cursor)

    def drawn(self, edit: ProposedEdit) -> str:
        """Return the line of an edit that is offered, with its marks."""
        start, end, _ = enclosing_line(self.document.text, edit.start)
        removed = f"[-{edit.removed}-]" if edit.removed else ""
        added = f"{{+{edit.added}+}}" if edit.added else ""
        return self.document.text[start : edit.start] + removed + added + self.document.text[edit.end : end]
