"""Scenarios played: their first edits made as a user would make them."""

from __future__ import annotations

from collections.abc import Sequence

from efim_lab.gate.next_edit.histories import LineRewrite
from efim_ls.text.document import PAUSE, Document, EditHistory, PastEdit, narrowed


def play(language: str, text: str, edits: Sequence[LineRewrite]) -> tuple[Document, EditHistory, int]:
    """Rewrite lines one after the other; return the document, the history, and where the last edit ends."""
    document, history, cursor = Document("file:///scenario", language, text), EditHistory(), 0
    for number, each in enumerate(edits):
        edit = narrowed(document.offset(each.line, 0, "utf-32"), each.before, each.after)
        document.splice(edit.at, edit.at + len(edit.removed), edit.added)
        history.follow(PastEdit(document.uri, edit.at, edit.removed, edit.added, 2 * PAUSE * number))
        cursor = edit.end
    return document, history, cursor
