"""What is offered to one client, and what it refused."""

from __future__ import annotations

from efim_ls.next_edit.proposal import ProposedEdit
from efim_ls.text.document import Document, EditHistory


class NextEdits:
    """Offers the next edit of one client's documents. Used on the event loop only, and fast enough for it."""

    def __init__(self, history: EditHistory) -> None:
        """Propose what follows from a history that others write."""
        self._history = history

    def propose(self, document: Document, cursor: int) -> ProposedEdit | None:
        """Return the edit to offer now, the nearest to the cursor first; None if there is nothing sure enough."""
        return None

    def accept(self, edit: ProposedEdit) -> None:
        """Note that an edit was accepted: taken back by an undo, it counts as refused."""

    def refuse(self, edit: ProposedEdit) -> None:
        """Never offer the same again in this session."""
