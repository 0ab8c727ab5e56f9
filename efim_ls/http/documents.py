"""Which document the text of a request is of: clients send a part of it, at each key, and often without its name."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple
from urllib.parse import quote

from efim_ls.languages.table import guess_language, language_of
from efim_ls.session.documents import OpenDocument
from efim_ls.session.session import Session
from efim_ls.text.document import narrowed
from efim_ls.text.lines import joined, normalized

MOST_DOCUMENTS = 16  # of which the least recently used is closed
MOST_KEPT = 1 << 20  # characters of a document of which parts were sent
EDGE = 256  # characters at a part's beginning and end by which its place is found
SHORTEST_EDGE = 32  # fewer occur in any file
SCHEME = "http-client"  # of documents that are known by a relative path, or by their text alone: they are no files
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Snippet(NamedTuple):
    """Text of another file, whose path may be empty."""

    path: str
    text: str


class CursorContext(NamedTuple):
    """A place as a client sends it: the text around the cursor, the file's path and language, and other files."""

    before: str
    after: str
    path: str = ""
    language: str = ""
    others: tuple[Snippet, ...] = ()


class DocumentPart(NamedTuple):
    """The part of a document that was sent last: where it begins, and its characters."""

    at: int
    size: int


class ClientDocuments:
    """The documents that clients have sent parts of. Used on the event loop only."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._parts: dict[str, DocumentPart] = {}  # by URI, most recently used last
        self._numbers = itertools.count(1)

    def sync(self, context: CursorContext) -> tuple[OpenDocument, int]:
        """Bring the document up to date that a text is of, or open it; return it with the cursor in it."""
        text, cursor = normalized(joined(context.before + context.after)), len(normalized(context.before))
        uri, (whole, at) = self._placed(context, text, cursor)
        if len(whole) > MOST_KEPT:
            whole, at = text, 0
        known = self._session.documents.get(uri)
        language = context.language or language_of(context.path) or (known.called if known else guess_language(text))
        document = self._session.sync(uri, language, whole)
        self._parts.pop(uri, None)
        self._parts[uri] = DocumentPart(at, len(text))
        self._session.documents.use(uri)
        if len(self._parts) > MOST_DOCUMENTS:
            oldest = next(iter(self._parts))
            del self._parts[oldest]
            self._session.close_document(oldest)
        return document, at + cursor

    def _placed(self, context: CursorContext, text: str, cursor: int) -> tuple[str, tuple[str, int]]:
        """Return the document's URI, its text, and where the part that was sent begins in it."""
        if context.path:
            uri = uri_of(context.path)
            return uri, self._merged(uri, text, cursor) or (text, 0)
        for uri in reversed(self._parts):
            if uri.startswith(f"{SCHEME}:#") and (found := self._merged(uri, text, cursor)):
                return uri, found
        return f"{SCHEME}:#{next(self._numbers)}", (text, 0)

    def _merged(self, uri: str, text: str, cursor: int) -> tuple[str, int] | None:
        document = self._session.documents.get(uri)
        return merged(document.text, self._parts[uri], text, cursor) if document and uri in self._parts else None


def uri_of(path: str) -> str:
    """Return the URI of a document that a client names by a URI, an absolute path or a relative one."""
    if URI.match(path):
        return path
    quoted = quote(path, errors="surrogatepass")  # JSON may hold half of a pair, which no path has
    return f"file://{quoted}" if path.startswith("/") else f"{SCHEME}:/{quoted}"


def merged(known: str, last: DocumentPart, text: str, cursor: int) -> tuple[str, int] | None:
    """Return a known text with a part of it as it is now, and where that begins; None if it is no part of it.

    A client's part moves with the cursor, so that its place is found by its edges; if the beginning has just been
    edited, it is where the `last` part was. What lies outside is as it was when it was sent.
    """
    start = _nearest(known, text[: min(cursor, EDGE)], last.at)
    if start is None:
        start, end = last.at, last.at + last.size
    else:
        closing = text[max(cursor, len(text) - EDGE) :]
        found = _nearest(known, closing, max(start, start + len(text) - len(closing)))
        end = len(known) if found is None or found < start else found + len(closing)
    unchanged = len(text) - len(narrowed(0, known[start:end], text).added)
    if 2 * unchanged < min(end - start, len(text)) or not unchanged:
        return None
    return known[:start] + text + known[end:], start


def _nearest(text: str, edge: str, at: int) -> int | None:
    """Return the place nearest to an offset where a text has an edge, None if it is nowhere or too short to tell."""
    if len(edge.strip()) < SHORTEST_EDGE:
        return None
    found = [text.rfind(edge, 0, at + len(edge)), text.find(edge, at)]
    return min((each for each in found if each >= 0), key=lambda each: abs(each - at), default=None)
