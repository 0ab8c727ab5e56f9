"""The offers to one client, and its refusals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from efim_ls.next_edit.changes import LineChange, by_several_cursors, is_being_typed, line_changes
from efim_ls.next_edit.rules.imports import unknown_names
from efim_ls.next_edit.rules.signature import Changed, Following, changed_definitions, following
from efim_ls.next_edit.rules.table import calls_proposed, proposals
from efim_ls.next_edit.situation import ProposedEdit, Situation
from efim_ls.text.document import Document, EditHistory, PastEdit
from efim_ls.text.lines import enclosing_line
from efim_ls.text.outline import Importable

MOST_OFFERED = 16  # the last offers, of which one may be accepted or refused
MOST_PARSED = 8  # texts whose changed definitions are known
MOST_REFUSALS = 2  # places of one change, after which it is not offered anywhere

_Refused = Mapping[tuple[str, ...], Set[str]]  # changes, with the lines at which each was refused


@dataclass
class _Offered:
    """An edit with its line: the start, the text before and after, and whether it was seen after."""

    edit: ProposedEdit
    start: int
    before: str
    after: str
    made: bool = False


@dataclass(frozen=True)
class CallsElsewhere:
    """A changed definition that calls in other files should follow. Immutable, so that any thread may propose.

    `uri` is its document's. `edits` are the last ones of all documents, and the `cursor` is in the document `asked`.
    """

    following: Following
    uri: str
    edits: Sequence[PastEdit]
    asked: str
    cursor: int
    refused: _Refused

    def propose(self, document: Document, module: str) -> ProposedEdit | None:
        """Return the edit of a call in another document, which writes `module`, if any, in front of it."""
        since = self.following.change.because[0].when
        changes = [each for each in line_changes(document, self.edits) if each.because[-1].when >= since]
        cursor = self.cursor if document.uri == self.asked else 0
        following = self.following.elsewhere(document.text, module)
        found = calls_proposed(document, cursor, following, {each.line for each in changes})
        offered = _first_allowed(found, document, changes, self.refused)
        return offered.edit if offered else None


class NextEdits:
    """Offers the next edit of one client's documents. Used on the event loop only, and fast enough for it."""

    def __init__(self, history: EditHistory) -> None:
        """Propose what follows from a history that others write."""
        self._history = history
        self._offered = deque[_Offered](maxlen=MOST_OFFERED)
        self._accepted: _Offered | None = None
        self._parsed = deque[tuple[str, Sequence[Changed]]](maxlen=MOST_PARSED)
        self._refused = dict[tuple[str, ...], frozenset[str]]()

    def propose(self, document: Document, cursor: int, importable: Sequence[Importable] = ()) -> ProposedEdit | None:
        """Return the edit to offer now, the nearest of the surest ones; None if none is sure enough.

        `importable` has the sources of the document's unknown names.
        """
        self._look_for_undo(document)
        edits = self._edits(document)
        if not edits:
            return None
        changes = _finished_changes(document, edits)
        if by_several_cursors(changes):
            return None
        found = proposals(Situation(document, cursor, changes, edits, importable))
        if (offered := _first_allowed(found, document, changes, self._refused)) is None:
            return None
        self._offered.append(offered)
        return offered.edit

    def unknown_names(self, document: Document, cursor: int) -> list[str]:
        """Return the names that the last edit uses and the document lacks; none is the one at the cursor."""
        edits = self._edits(document)
        return unknown_names(document, edits[-1], cursor) if edits else []

    def calls_elsewhere(
        self, document: Document, cursor: int, others: Sequence[Document], own: bool
    ) -> CallsElsewhere | None:
        """Return the changed definition that calls in other files should follow, None if there is none.

        It is one of this document if `own`, else one of the others. The last edit, in any of them, must have changed
        it or one of its calls.
        """
        self._look_for_undo(document)
        edits = self._history.recent()
        uris = {each.uri for each in edits}
        definitions = [each for each in ((document,) if own else others) if each.uri in uris]
        edited = next((each for each in (document, *others) if edits and each.uri == edits[-1].uri), None)
        if edited is None or not definitions or (own and edited is not document):
            return None
        changes = _finished_changes(edited, [each for each in edits if each.uri == edited.uri])
        is_typed = edited is document and bool(changes) and is_being_typed(changes[-1].because[-1], cursor)
        if not changes or is_typed or by_several_cursors(changes):
            return None
        for each in definitions:
            if found := following(edited, changes[-1], each, self._changed_definitions(each, edits)):
                return CallsElsewhere(found, each.uri, edits, document.uri, cursor, dict(self._refused))
        return None

    def note(self, document: Document, edit: ProposedEdit) -> None:
        """Remember an edit that is offered in another document, so that it can be accepted or refused."""
        self._offered.append(_offer(document, edit))

    def accept(self, edit: ProposedEdit) -> None:
        """Note that an edit was accepted: taken back by an undo, it counts as refused."""
        self._accepted = next((each for each in self._offered if each.edit == edit), None)

    def refuse(self, edit: ProposedEdit) -> None:
        """Never offer the same again in this session."""
        for offered in self._offered:
            if offered.edit == edit:
                change = _change(edit)
                self._refused[change] = self._refused.get(change, frozenset()) | {offered.before}

    def _edits(self, document: Document) -> list[PastEdit]:
        return [edit for edit in self._history.recent() if edit.uri == document.uri]

    def _changed_definitions(self, document: Document, edits: Sequence[PastEdit]) -> Sequence[Changed]:
        """Return the changed definitions of a document, which are parsed once for each of its texts."""
        text = document.text
        found = next((found for parsed, found in self._parsed if parsed is text), None)
        if found is None:
            found = changed_definitions(document, line_changes(document, edits))
            self._parsed.append((text, found))
        return found

    def _look_for_undo(self, document: Document) -> None:
        """Refuse the edit that was accepted last once its line is undone."""
        accepted = self._accepted
        if accepted is None or accepted.edit.uri != document.uri:
            return
        start, end, _ = enclosing_line(document.text, min(accepted.start, len(document.text)))
        is_made = document.text.startswith(accepted.after, start)
        accepted.made = accepted.made or is_made
        if accepted.made and not is_made and document.text[start:end] == accepted.before:
            self._accepted = None
            self.refuse(accepted.edit)


def _finished_changes(document: Document, edits: Sequence[PastEdit]) -> list[LineChange]:
    """Return the changed lines of a document, none if its last edit did not finish one with more than blanks."""
    changes = line_changes(document, edits)
    is_last = bool(changes) and changes[-1].because[-1] is edits[-1]
    return changes if is_last and not changes[-1].change.only_blanks else []


def _first_allowed(
    found: Iterable[ProposedEdit], document: Document, changes: Iterable[LineChange], refused: _Refused
) -> _Offered | None:
    """Return the first proposal that was not refused, and takes back none of these changes."""
    undone = {("".join(each.change.added), "".join(each.change.removed)) for each in changes}
    for edit in found:
        offered, lines = _offer(document, edit), refused.get(_change(edit), frozenset[str]())
        is_refused = offered.before in lines or len(lines) >= MOST_REFUSALS
        if not is_refused and (edit.removed, edit.added) not in undone:
            return offered
    return None


def _offer(document: Document, edit: ProposedEdit) -> _Offered:
    start, end, _ = enclosing_line(document.text, edit.start)
    before = document.text[start:end]
    after = before[: edit.start - start] + edit.added + before[edit.end - start :]
    return _Offered(edit, start, before, after)


def _change(edit: ProposedEdit) -> tuple[str, ...]:
    """Return the key of a rule's change, equal at all its places."""
    return (edit.rule, *(edit.pattern or (edit.removed, edit.added)))
