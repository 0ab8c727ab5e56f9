"""Next edits on their way to a user: offered under ids, then shown, and accepted or refused."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from efim_ls.next_edit.next_edits import NextEdits
from efim_ls.next_edit.proposal import ProposedEdit
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.text.document import Edit, PastEdit, narrowed
from efim_ls.text.outline import Importable
from efim_ls.usage.counters import Counters
from efim_ls.usage.edits import AcceptedEdits

FindImports = Callable[[OpenDocument, Sequence[str]], Awaitable[Sequence[Importable]]]

MOST_OFFERS = 100  # edits whose outcome a client may still report

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class OfferedEdit:
    """An edit of an open document, under an id by which a client tells what became of it."""

    number: str
    document: OpenDocument
    edit: ProposedEdit
    was_shown: bool = False

    @property
    def told(self) -> Edit:
        """The edit as it reads best: with whole words, unless it only adds or only removes text."""
        whole = Edit(self.edit.start, self.edit.removed, self.edit.added)
        narrow = narrowed(whole.at, whole.removed, whole.added)
        return whole if narrow.removed and narrow.added else narrow


class EditOffers:
    """Offers next edits in a client's documents, where the rules allow suggestions. Used on the event loop only.

    `enabled` is the setting, `proposals` decides what is offered, and `find_imports` asks the workspace.
    """

    def __init__(self, documents: OpenDocuments, counters: Counters, find_imports: FindImports) -> None:
        self.enabled = True
        self.proposals = NextEdits(documents.history)
        self._documents, self._counters, self._find_imports = documents, counters, find_imports
        self._accepted = AcceptedEdits(counters)
        self._offers: dict[str, OfferedEdit] = {}
        self._ids = itertools.count(1)

    async def find(self, document: OpenDocument, cursor: int) -> OfferedEdit | None:
        """Return the edit to offer at a cursor, None if there is none; other files are asked only if need be."""
        if not self.enabled or self._documents.why_off(document.uri) is not None:
            return None
        try:
            if offer := self._offer(self.proposals.propose(document, cursor)):
                return offer
            text, names = document.text, self.proposals.unknown_names(document, cursor)
            importable = await self._find_imports(document, names) if names else ()
            if not importable or document.text != text:
                return None
            return self._offer(self.proposals.propose(document, cursor, importable))
        except Exception as error:  # an editor shows errors, and nobody asked for an edit
            logger.error("proposing a next edit failed", exc_info=error)
            return None

    def _offer(self, edit: ProposedEdit | None) -> OfferedEdit | None:
        """Return a proposal as an offer, unless it must not be made; one that was offered before keeps its id."""
        if edit is None or self._documents.why_off(edit.uri) is not None:
            return None
        if (edited := self._documents.get(edit.uri)) is None:  # it has no version that a client could compare
            return None
        earlier = (each for each in self._offers.values() if each.document is edited and each.edit == edit)
        return next(earlier, None) or self._add(OfferedEdit(str(next(self._ids)), edited, edit))

    def show(self, number: str) -> None:
        """Count an offer as shown, once; unknown ids are ignored."""
        offer = self._offers.get(number)
        if offer is not None and not offer.was_shown:
            offer.was_shown = True
            self._counters.add(offer.document.language, {"edits_shown": 1})

    def accept(self, number: str) -> None:
        """Count an acceptance, once, and follow the edit; unknown ids are ignored."""
        self.show(number)  # an accepted edit was seen
        if (offer := self._offers.pop(number, None)) is not None:
            edit = offer.edit
            self.proposals.accept(edit)
            done = narrowed(edit.start, edit.removed, edit.added)
            self._accepted.accept(edit.uri, offer.document.language, done, offer.document.followers)

    def refuse(self, number: str) -> None:
        """Never offer this edit again; unknown ids are ignored."""
        if (offer := self._offers.pop(number, None)) is not None:
            self.proposals.refuse(offer.edit)

    def close_document(self, uri: str) -> None:
        """Count what is kept in a document, and forget what was offered there."""
        self._accepted.close_document(uri)
        self._offers = {number: each for number, each in self._offers.items() if each.document.uri != uri}

    def close(self) -> None:
        """Count what is kept so far."""
        self._accepted.close()

    def explain(self, offer: OfferedEdit) -> dict[str, object]:
        """Return which rule proposed an edit, and from which edits."""
        edit = offer.edit
        return {
            "uri": edit.uri,
            "line": offer.document.line_of(edit.start) + 1,
            "removed": edit.removed,
            "added": edit.added,
            "rule": edit.rule,
            "confidence": edit.confidence,
            "because": [self._explain_past(past) for past in edit.because],
        }

    def _explain_past(self, past: PastEdit) -> dict[str, object]:
        """Return an edit with the line, counted from 1, where it is now, and without its document's whole text."""
        at = past.at
        for later in self._documents.history.recent():
            if later.uri == past.uri and later.when > past.when and later.at <= at:
                at += len(later.added) - len(later.removed)
        document = self._documents.get(past.uri)
        line = document.line_of(at) + 1 if document else None
        return {"uri": past.uri, "line": line, "removed": past.removed, "added": past.added}

    def _add(self, offer: OfferedEdit) -> OfferedEdit:
        self._offers[offer.number] = offer
        if len(self._offers) > MOST_OFFERS:
            del self._offers[next(iter(self._offers))]
        return offer
