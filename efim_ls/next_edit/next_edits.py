"""What is offered to one client, and what it refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from efim_ls.next_edit.changes import by_several_cursors, line_changes
from efim_ls.next_edit.proposal import ProposedEdit
from efim_ls.next_edit.rules.imports import unknown_names
from efim_ls.next_edit.rules.table import proposals
from efim_ls.next_edit.situation import Situation
from efim_ls.text.document import Document, EditHistory, PastEdit
from efim_ls.text.lines import enclosing_line
from efim_ls.text.outline import Importable

MOST_OFFERED = 16  # the last offers, of which one may be accepted or refused
MOST_REFUSALS = 2  # places of one change, after which it is not offered anywhere


@dataclass
class _Offered:
    """An edit with its line: where it starts, what it is before and after, and whether it was seen after."""

    edit: ProposedEdit
    start: int
    before: str
    after: str
    made: bool = False


class NextEdits:
    """Offers the next edit of one client's documents. Used on the event loop only, and fast enough for it."""

    def __init__(self, history: EditHistory) -> None:
        """Propose what follows from a history that others write."""
        self._history = history
        self._offered = deque[_Offered](maxlen=MOST_OFFERED)
        self._accepted: _Offered | None = None
        self._refused = dict[tuple[str, ...], set[str]]()  # changes, with the lines at which each was refused

    def propose(self, document: Document, cursor: int, importable: Sequence[Importable] = ()) -> ProposedEdit | None:
        """Return the edit to offer now, the nearest of the surest ones; None if there is nothing sure enough.

        `importable` is what is known of the document's unknown names.
        """
        self._look_for_undo(document)
        edits = self._edits(document)
        if not edits:
            return None
        changes = line_changes(document, edits)
        if changes and (changes[-1].because[-1] is not edits[-1] or changes[-1].change.only_blanks):
            changes = []
        if by_several_cursors(changes):
            return None
        undone = {("".join(each.change.added), "".join(each.change.removed)) for each in changes}
        for edit in proposals(Situation(document, cursor, changes, edits, importable)):
            offered = _offer(document, edit)
            if not self._is_refused(offered) and (edit.removed, edit.added) not in undone:
                self._offered.append(offered)
                return edit
        return None

    def unknown_names(self, document: Document, cursor: int) -> list[str]:
        """Return the names that the last edit uses and the document lacks; none is the one at the cursor."""
        edits = self._edits(document)
        return unknown_names(document, edits[-1], cursor) if edits else []

    def accept(self, edit: ProposedEdit) -> None:
        """Note that an edit was accepted: taken back by an undo, it counts as refused."""
        self._accepted = next((each for each in self._offered if each.edit == edit), None)

    def refuse(self, edit: ProposedEdit) -> None:
        """Never offer the same again in this session."""
        for offered in self._offered:
            if offered.edit == edit:
                self._refused.setdefault(_change(edit), set()).add(offered.before)

    def _edits(self, document: Document) -> list[PastEdit]:
        return [edit for edit in self._history.recent() if edit.uri == document.uri]

    def _is_refused(self, offered: _Offered) -> bool:
        lines = self._refused.get(_change(offered.edit), set())
        return offered.before in lines or len(lines) >= MOST_REFUSALS

    def _look_for_undo(self, document: Document) -> None:
        """Refuse the edit that was accepted last once its line has become again what it was."""
        accepted = self._accepted
        if accepted is None or accepted.edit.uri != document.uri:
            return
        start, end, _ = enclosing_line(document.text, min(accepted.start, len(document.text)))
        is_made = document.text.startswith(accepted.after, start)
        accepted.made = accepted.made or is_made
        if accepted.made and not is_made and document.text[start:end] == accepted.before:
            self._accepted = None
            self.refuse(accepted.edit)


def _offer(document: Document, edit: ProposedEdit) -> _Offered:
    start, end, _ = enclosing_line(document.text, edit.start)
    before = document.text[start:end]
    after = before[: edit.start - start] + edit.added + before[edit.end - start :]
    return _Offered(edit, start, before, after)


def _change(edit: ProposedEdit) -> tuple[str, ...]:
    """Return what names a rule's change at all places."""
    return (edit.rule, *(edit.pattern or (edit.removed, edit.added)))
