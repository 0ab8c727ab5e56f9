"""What a rule proposes."""

from __future__ import annotations

from typing import NamedTuple

from efim_ls.text.document import PastEdit


class ProposedEdit(NamedTuple):
    """An edit that is offered: the text from `start` to `end` of a document, offsets in it, becomes `added`.

    `removed` is that text now. `rule` names who proposes it, `because` are the edits that it follows from, and
    `confidence` is how often such proposals are right, from 0 to 1. `pattern` names the change if its tokens
    differ from place to place.
    """

    uri: str
    start: int
    end: int
    removed: str
    added: str
    rule: str
    confidence: float
    because: tuple[PastEdit, ...]
    pattern: tuple[str, ...] = ()
