"""Next edits on their way to a user: offered under ids, then shown, and accepted or refused."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from efim_ls.access.secret_text import MASK, adds_secret
from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.text.document import Document, Edit, PastEdit, narrowed
from efim_ls.text.outline import Importable
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import AcceptedEdits
from efim_ls.workspace.imports.calling import CalledDefinition

_Found = tuple[Document, ProposedEdit]  # in the text that a look-up has read
_Look = Callable[[Document, str], _Found | None]


class OtherFiles(Protocol):
    """What can be asked about the files of the workspace."""

    def find_imports(self, document: OpenDocument, names: Sequence[str], /) -> Awaitable[Sequence[Importable]]:
        """Return how a document would import names that it lacks."""
        ...

    def find_call(self, definition: CalledDefinition, only: str, look: _Look, /) -> Awaitable[_Found | None]:
        """Look for a call of a definition in other files, in the one at a path if that is given."""
        ...


MOST_OFFERS = 100  # edits whose outcome a client may still report

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class OfferedEdit:
    """An edit under an id by which a client reports its outcome.

    `document` is the open one or, if it is not open, the text of its file, which has no version.
    """

    number: str
    document: Document
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

    `enabled` is the setting, and `proposals` decides on the offers.
    """

    def __init__(self, documents: OpenDocuments, counters: Counters, others: OtherFiles) -> None:
        self.enabled = True
        self.proposals = NextEdits(documents.history)
        self._documents, self._counters, self._others = documents, counters, others
        self._accepted = AcceptedEdits(counters)
        self._offers: dict[str, OfferedEdit] = {}
        self._ids = itertools.count(1)

    async def find(self, document: OpenDocument, cursor: int, elsewhere: bool = True) -> OfferedEdit | None:
        """Return the edit to offer at a cursor, None if there is none; other files are asked only if need be.

        With `elsewhere` it may be an edit of another document.
        """
        if not self.enabled or self._documents.why_off(document.uri) is not None:
            return None
        try:
            return (
                await self._find_call(document, cursor, False, elsewhere)
                or self._offer(self.proposals.propose(document, cursor))
                or await self._find_import(document, cursor, self.proposals.unknown_names(document, cursor))
                or (await self._find_call(document, cursor, True, elsewhere) if elsewhere else None)
            )
        except Exception as error:  # an editor shows errors, and nobody asked for an edit
            logger.error("proposing a next edit failed", exc_info=error)
            return None

    async def _find_import(self, document: OpenDocument, cursor: int, names: Sequence[str]) -> OfferedEdit | None:
        """Return the import that one of these names needs, unless the text changes meanwhile."""
        text = document.text
        importable = await self._others.find_imports(document, names) if names else ()
        if not importable or document.text != text:
            return None
        return self._offer(self.proposals.propose(document, cursor, importable))

    async def _find_call(self, document: OpenDocument, cursor: int, own: bool, elsewhere: bool) -> OfferedEdit | None:
        """Return a call in another file than the definition that it follows, this document's `own` or another's.

        A document that is only looked at, the last edit being elsewhere, is the only one where calls are offered.
        """
        related = [each for each in self._documents if each is not document and each.family == document.family]
        others = [each for each in related[::-1] if self._documents.may_be_read(each)]
        calls = self.proposals.calls_elsewhere(document, cursor, others, own)
        defining = self._documents.get(calls.uri) if calls else None
        if calls is None or defining is None or not defining.path:
            return None
        text, last, definition = document.text, self._documents.history.recent(1), calls.following.definition
        member = definition.name if definition.called == "as member" else ""
        called = CalledDefinition(defining.path, defining.language, defining.text, definition.imported, member)

        def look(other: Document, module: str) -> _Found | None:
            edit = calls.propose(other, module)
            return (other, edit) if edit else None

        only = "" if elsewhere and last[0].uri == document.uri else document.path
        found = await self._others.find_call(called, only, look)
        if not found or document.text != text or self._documents.history.recent(1) != last:
            return None
        read, edit = found
        if (opened := self._documents.get(edit.uri)) and opened.text != read.text:
            return None
        self.proposals.note(read, edit)
        return self._offer(edit, read)

    def _offer(self, edit: ProposedEdit | None, read: Document | None = None) -> OfferedEdit | None:
        """Return a proposal as an offer, unless it must not be made; a repeated proposal keeps its id.

        `read` is the text of its file, if that is not open.
        """
        if edit is None or self._documents.why_off(edit.uri) is not None:
            return None
        if (document := self._documents.get(edit.uri) or read) is None:
            return None
        if MASK in edit.removed or adds_secret(
            document.text, document.language, edit.start, edit.start + len(edit.removed), edit.added
        ):
            return None
        for each in self._offers.values():
            if each.edit == edit:
                each.document = document  # it may have been opened since
                return each
        return self._add(OfferedEdit(str(next(self._ids)), document, edit))

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
            edited = self._documents.get(edit.uri)
            self._accepted.accept(edit.uri, offer.document.language, done, edited.followers if edited else [])

    def refuse(self, number: str) -> None:
        """Never offer this edit again; unknown ids are ignored."""
        if (offer := self._offers.pop(number, None)) is not None:
            self.proposals.refuse(offer.edit)

    def close_document(self, uri: str) -> None:
        """Count the kept edits in a document, and forget its offers."""
        self._accepted.close_document(uri)
        closed = self._documents.get(uri)
        self._offers = {number: each for number, each in self._offers.items() if each.document is not closed}

    def close(self) -> None:
        """Count the kept edits so far."""
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
