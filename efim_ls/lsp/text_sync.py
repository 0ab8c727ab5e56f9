"""Reads what clients send to keep texts in sync, in any form that leaves no doubt about its meaning.

An edit that is dropped falsifies every later one, so these messages are not held to LSP's types: a client may leave
out the version, send null for a missing range, or a huge number for the end of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from efim_ls.text.document import Change, Position

LARGEST_NUMBER = 2**31 - 1  # of a line or a character, in LSP


def document_uri(params: object) -> str | None:
    """Return the URI of the document that a message is about, None if it names none."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            return uri
        case _:
            return None


def version_of(params: object) -> int | None:
    """Return the version of the document that a message is about, None if it has none."""
    match params:
        case {"textDocument": {"version": int(version)}}:
            return version
        case _:
            return None


def language_and_text(params: object) -> tuple[str, str | None]:
    """Return the language and text of a document that is being opened, '' and None if they are no texts."""
    match params:
        case {"textDocument": {"languageId": str(language), "text": str(text)}}:
            return language, text
        case {"textDocument": {"languageId": str(language)}}:
            return language, None
        case {"textDocument": {"text": str(text)}}:
            return "", text
        case _:
            return "", None


def changes_of(params: Any) -> Iterator[Change | None]:
    """Yield the changes of a document, None for one that cannot be understood."""
    match params:
        case {"contentChanges": [*changes]}:
            yield from map(_change, changes)
        case _:
            yield None


def position_of(raw: object) -> Position | None:
    """Return a position with its numbers within LSP's limits, None if it is none."""
    match raw:
        case {"line": int() | float() as line, "character": int() | float() as character}:
            if not (_is_whole(line) and _is_whole(character)):
                return None
            if line < 0:
                return 0, 0
            return min(int(line), LARGEST_NUMBER), min(max(int(character), 0), LARGEST_NUMBER)
        case _:
            return None


def _is_whole(number: float) -> bool:
    return not isinstance(number, bool) and (isinstance(number, int) or number.is_integer())


def _change(raw: Any) -> Change | None:
    match raw:
        case {"text": str(text), "range": {"start": start, "end": end}}:
            first, last = position_of(start), position_of(end)
            return None if first is None or last is None else Change(text, first, last)
        case {"range": value} if value is not None:
            return None
        case {"text": str(text)}:
            return Change(text)
        case _:
            return None
