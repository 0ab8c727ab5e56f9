"""The open documents, with the event loop's state of each."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from time import monotonic
from urllib.parse import urlsplit

from efim_ls.access.reasons import Refusal, refusal, why_empty
from efim_ls.access.rules import Rules, Verdict
from efim_ls.access.secret_text import PublicText
from efim_ls.languages.headers import header_language
from efim_ls.languages.table import family_of, language_of
from efim_ls.paths import real_path
from efim_ls.request import Answer, ListedNames, Part, Request
from efim_ls.settings import Settings
from efim_ls.text.document import Change, Document, Edit, EditHistory, PastEdit, Suggestion, begin_alike
from efim_ls.text.parts import parts_of
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import Followers, RetentionTracker
from efim_ls.workspace.files.context import RecentEdit

# More text slows every token; more files would outgrow the cache of their tokens.
MOST_OTHERS, MOST_CHARACTERS_OF_OTHERS = 32, 200_000
CELL_END = "\n"  # between cells of a notebook
_WORD = re.compile(r"\w+")
MOST_EDITED = 64  # edits that are remembered: other servers list names within some keys

logger = logging.getLogger(__name__)


class IdleTimer:
    """Calls a function after a pause; a later `start` replaces it. Used on the event loop only."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._begin: Callable[[], None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a call is pending."""
        return self._begin is not None

    def start(self, seconds: float, begin: Callable[[], None]) -> None:
        """Call `begin` after `seconds` without another `start`."""
        self.cancel()
        self._begin = begin
        self._timer = asyncio.get_running_loop().call_later(seconds, self.fire)

    def cancel(self) -> None:
        """Drop the pending call."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._begin = None

    def fire(self) -> None:
        """Make the pending call now."""
        begin = self._begin
        self.cancel()
        if begin is not None:
            try:
                begin()
            except Exception as error:  # there is no caller to raise it to, and other documents' timers go on
                logger.error("work after a pause failed", exc_info=error)


class OpenDocument(Document):
    """An open document: its text, and the event loop's state until it is closed.

    `path` is its file's without links, empty if it is no file. `called` is its language as the client calls it, which
    is another than its `language` if a header of C++ is called C's. `family` stands for all languages with its words.
    `parts` are those in other languages, None where its language has none; it alone holds them.
    `cursor` is the last known offset of the user's cursor; edits do not move it. `retention` tracks accepted
    suggestions, and `followers` are accepted next edits. `prefetch_timer` and `save_timer` wait for the user to
    pause. `out_of_step`: an edit could not be understood, so the text may differ from the editor's until its whole
    text is known again.
    """

    def __init__(self, counters: Counters, uri: str, language: str, text: str, version: int | None = None) -> None:
        """Count retained characters of accepted suggestions in `counters`."""
        super().__init__(uri, language or language_of(uri), text, version)
        self.path, self.called = real_path(self.uri), self.language
        self.language = header_language(self.called, self.path or self.uri, self.text)
        self.family, self.parts = family_of(self.language), parts_of(self.language)
        self.cursor: int | None = None
        self.retention = RetentionTracker(counters, self.text)
        self.followers: Followers = []
        self.prefetch_timer, self.save_timer = IdleTimer(), IdleTimer()
        self.out_of_step = False
        self._public = PublicText(self.text, self.language)
        self._judged: tuple[Rules, Verdict] | None = None
        self._answered: tuple[Request, Answer] | None = None
        self._listed: ListedNames | None = None
        # The call and the argument's place for which keywords were looked up last.
        self.listed_for: tuple[str, int] | None = None
        self._edited = deque[tuple[int | None, int]](maxlen=MOST_EDITED)  # versions, and where each was edited

    @property
    def public(self) -> str:
        """The text as suggestions may be made of it: as long as it is, without what looks secret."""
        return self._public.text

    @property
    def part(self) -> Part | None:
        """The part in another language at the last known cursor, None if it is in none."""
        if self.parts is None or self.cursor is None:
            return None
        return self.parts.at(self.text, min(self.cursor, len(self.text)))

    def edit(self, change: Change) -> Edit | None:
        """Apply a change and track accepted suggestions through it; out of step, only a whole text is a change."""
        if change.is_whole:
            self.out_of_step = False
        if self.out_of_step:
            return None
        edit = self.apply(change)
        self._edited.append((self.version, edit.at))
        if self._listed and edit.at < self._listed.start:
            self._listed = None
        self._public.follow(edit.at, edit.at + len(edit.removed), edit.end, self.text)
        self.retention.follow(edit, self.text)
        for follow in self.followers:
            follow(edit)
        return edit

    def list_names(self, listed: ListedNames, version: int | None) -> bool:
        """Take the names that another server lists, unless the text of that version has changed in front of them.

        Return whether to ask again at the cursor: its suggestion makes a name that is not among them, or it has none
        though they are all that may stand there, or only one keyword begins as typed.
        """
        known = [each for each, _ in self._edited]
        since = known.index(version) if version in known else len(known)
        is_known = version in (None, self.version) or version in known
        if not is_known or any(at < listed.start for _, at in list(self._edited)[since:]):
            return False
        self._listed = listed
        cursor = self.cursor or 0
        shown, expected = self.last_answer(self.public, cursor), listed.expected(self.text, cursor)
        if shown is None or expected is None:
            return False
        word = _WORD.match(shown.text)
        names, stub = expected.names, expected.stub
        if word:
            return not names.may_have(stub + word[0])
        fitting = len(names.beginning_with(stub))
        may_tell = fitting == 1 and stub if expected.kind == "keyword" else fitting and not names.is_open
        return not shown.text and bool(may_tell)

    def listed_at(self, cursor: int, shift: int) -> ListedNames | None:
        """Return the names listed where the word at a cursor begins, in a text with `shift` characters in front."""
        listed = self._listed
        if listed is None or listed.expected(self.text, cursor) is None:
            return None
        return replace(listed, start=listed.start + shift)

    def verdict(self, rules: Rules) -> Verdict:
        """Return the rules' verdict on it, cached while the same rules are in force."""
        if self._judged is None or self._judged[0] is not rules:
            self._judged = rules, rules.verdict(self.uri, self.language)
        return self._judged[1]

    def note_answer(self, request: Request, answer: Answer) -> None:
        """Remember the last answer, without the texts of other documents, which may close soon."""
        self._answered = replace(request, others=()), answer

    def why_nothing(self, text: str, cursor: int) -> Refusal | None:
        """Return why the last answer was empty, if it was for this text and cursor; else None."""
        answer = self.last_answer(text, cursor)
        return why_empty(answer) if answer else None

    def is_shown(self, request: Request, answer: Answer) -> bool:
        """Return whether the answer to a request is the rest of the last one, which the user types through."""
        earlier, shown = self._answered or (request, Answer(""))
        rest = Suggestion(earlier.cursor, shown.text).left(request.text, request.cursor)
        return begin_alike(rest, answer.text)

    def last_answer(self, text: str, cursor: int) -> Answer | None:
        """Return the last answer if it was for this text and cursor, else None."""
        request, answer = self._answered or (None, None)
        return answer if request and (request.text, request.cursor) == (text, cursor) else None

    def close(self) -> None:
        """Stop all timers and count the retained characters of accepted suggestions."""
        self.prefetch_timer.cancel()
        self.save_timer.cancel()
        self.retention.close()


class OpenDocuments:
    """The open documents, most recently used last, and the rules in force. Used on the event loop only.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.rules, self.clock = Rules(Settings()), clock
        self._documents: dict[str, OpenDocument] = {}
        self.notebooks = Notebooks()
        self.history = EditHistory()

    def __iter__(self) -> Iterator[OpenDocument]:
        return iter(list(self._documents.values()))

    def add(self, document: OpenDocument) -> None:
        """Hold a document, in place of one with its URI, as some clients open documents twice."""
        if (before := self._documents.get(document.uri)) is not None:  # its keys and values have yet to be saved
            before.save_timer, document.save_timer = document.save_timer, before.save_timer
            self.close(document.uri)
        self._documents[document.uri] = document
        self.notebooks.note(document.uri)

    def get(self, uri: str) -> OpenDocument | None:
        """Return a document, or None if it is not open."""
        return self._documents.get(uri)

    def use(self, uri: str) -> OpenDocument | None:
        """Return a document and mark it as most recently used; None if it is not open."""
        if (document := self._documents.pop(uri, None)) is not None:
            self._documents[uri] = document
        return document

    @property
    def last_used(self) -> OpenDocument | None:
        """The most recently used document, None if none is open."""
        return next(reversed(self._documents.values()), None)

    def close(self, uri: str) -> None:
        """Close a document, if it is open."""
        if (document := self._documents.pop(uri, None)) is not None:
            document.close()
            self.history.forget(uri)
            if self._documents.keys().isdisjoint(chain(*self.notebooks.around(uri))):
                self.notebooks.forget(uri)

    def edit(self, document: OpenDocument, change: Change, when: float) -> Edit | None:
        """Apply a change to a document, remember it and return it; None if the document is out of step.

        `when` is by the clock, the same for changes that come together.
        """
        if edit := document.edit(change):
            self.history.follow(PastEdit(document.uri, edit.at, edit.removed, edit.added, when))
        return edit

    def language(self, uri: str) -> str:
        """Return a document's language as the client names it; empty if it is not open."""
        return document.language if (document := self._documents.get(uri)) else ""

    def why_off(self, uri: str, size: int | None = None) -> Refusal | None:
        """Return why the rules allow no suggestions in a document, open or not; `size` overrides its characters."""
        if (document := self._documents.get(uri)) is None:
            return self.rules.verdict(uri, "").refusal(size or 0)
        off = document.verdict(self.rules).refusal(len(document.text) if size is None else size)
        return refusal("out of step") if off is None and document.out_of_step else off

    def others(self, document: OpenDocument, at_cursor: str) -> list[OpenDocument]:
        """Return other documents in its language, or in the language at the cursor, most recently used last.

        Their texts fit whole. The other cells of its notebook are none.
        """
        room, found = MOST_CHARACTERS_OF_OTHERS, list[OpenDocument]()
        languages = document.language, at_cursor
        own = {document.uri}.union(*self.notebooks.around(document.uri))
        for other in reversed(self._documents.values()):
            size = len(other.text)
            alike = other.uri not in own and other.language in languages and size <= room
            if alike and self.may_be_read(other):
                room -= size
                found.append(other)
        return found[:MOST_OTHERS][::-1]

    def cells_around(self, document: OpenDocument) -> tuple[str, str]:
        """Return the code above and below a notebook's cell, from the cells in its language; else nothing."""

        def code(uris: Sequence[str]) -> list[str]:
            cells = (self._documents.get(uri) for uri in uris)
            return [
                each.public for each in cells if each and each.family == document.family and self.may_be_read(each)
            ]

        cells = self.notebooks.around(document.uri)
        if not any(cells):
            return "", ""
        above, below = map(code, cells)
        return "".join(f"{each}{CELL_END}" for each in above), "".join(f"{CELL_END}{each}" for each in below)

    def edited(self, document: OpenDocument) -> tuple[RecentEdit, ...]:
        """Return where other documents that may be read were edited last, the last one used last."""
        places = {edit.uri: edit.at for edit in self.history.recent()}
        others = [each for each in self._documents.values() if each is not document and each.path]
        return tuple(
            RecentEdit(each.path, each.public, each.line_of(places[each.uri]))
            for each in others
            if each.uri in places and self.may_be_read(each)
        )

    def may_be_read(self, document: OpenDocument) -> bool:
        """Return whether a document's text may be used to complete others."""
        return not document.out_of_step and document.verdict(self.rules).may_be_read(len(document.text))


class Notebooks:
    """The cells of notebooks by their URIs: as a client sends them, else as they were opened.

    Cells that a client opens as documents alone are recognized by their URIs, which differ in the fragment only.
    """

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}  # by notebook
        self._told: dict[str, str] = {}  # the notebook of a cell

    def open(self, notebook: str, cells: Sequence[str]) -> None:
        """Take the cells of a notebook that a client tells."""
        self.close(notebook)
        self._cells[notebook] = list(cells)
        self._told |= dict.fromkeys(cells, notebook)

    def splice(self, notebook: str, start: int, count: int, cells: Sequence[str]) -> None:
        """Replace some cells of a notebook; a moved cell is removed and put elsewhere."""
        known = self._cells.setdefault(notebook, [])
        for each in known[start : start + count]:
            self._told.pop(each, None)
        known[start : start + count] = cells
        self._told |= dict.fromkeys(known, notebook)

    def close(self, notebook: str) -> Sequence[str]:
        """Forget a notebook; return its cells."""
        cells = self._cells.pop(notebook, [])
        for each in cells:
            self._told.pop(each, None)
        return cells

    def note(self, uri: str) -> None:
        """Note a document that is opened: it may be a cell whose notebook no client tells."""
        if uri not in self._told and (notebook := _notebook_of(uri)):
            cells = self._cells.setdefault(notebook, [])
            if uri not in cells:
                cells.append(uri)

    def forget(self, uri: str) -> None:
        """Forget the notebook of a cell, unless a client has opened it: none of its cells is open any more."""
        if uri not in self._told:
            self._cells.pop(_notebook_of(uri), None)

    def around(self, uri: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the cells above and below one, none if it is no cell."""
        cells = self._cells.get(self._told.get(uri) or _notebook_of(uri), []) if self._cells else []
        if uri not in cells:
            return (), ()
        at = cells.index(uri)
        return cells[:at], cells[at + 1 :]


def _notebook_of(uri: str) -> str:
    """Return the URI of the notebook of a cell, empty if a URI is no cell's: names of files may have `#`."""
    notebook, _, cell = uri.partition("#")
    parts = urlsplit(notebook)
    return notebook if cell and parts.path and (parts.scheme != "file" or parts.path.endswith(".ipynb")) else ""
