"""The parts of a document in several languages."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Parser

from efim_ls.languages.forms.language import MixedGrammar
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Part
from efim_ls.text.document import narrowed
from efim_ls.text.grammars import loaded

LONGEST_MARK = 16  # characters
NEAR = 8_000  # characters around a part in which other pieces of its program are read
MOST_KNOWN = 4  # beginnings of a document that need not be parsed again


class _Region(NamedTuple):
    """The characters of a text between two signs, from `start` to `behind` before the end, and the part there."""

    start: int
    behind: int
    part: Part | None

    def holds(self, start: int, end: int, length: int) -> bool:
        """Return whether a range lies in it, of a text of this length."""
        return self.start <= start and end <= length - self.behind


class Parts:
    """The parts of one document. Used on one thread.

    Which part begins behind a sign depends on the text up to that sign alone. So an edit between two signs leaves the
    part there as it was, unless it makes or breaks a sign; and then only the text up to the nearest sign is parsed,
    unless it was before.
    """

    def __init__(self, language: str, grammar: MixedGrammar) -> None:
        self._language, self._grammar = language, grammar
        self._text = ""
        self._region: _Region | None = None  # around the last cursor in the last text
        self._parser: Parser | None = None
        self._begins = lru_cache(MOST_KNOWN)(self._parse)

    def at(self, text: str, cursor: int) -> Part | None:
        """Return the part at a cursor, None where the document is in its own language."""
        if self._region and not self._stays(self._region, text):
            self._region = None
        self._text = text
        if self._region is None or not self._region.holds(cursor, cursor, len(text)):
            self._region = self._around(text, cursor)
        return self._region and self._region.part

    def _stays(self, region: _Region, text: str) -> bool:
        """Return whether the edit from the last text to this one lies between the same two signs."""
        if text is self._text:
            return True
        edit, before = narrowed(0, self._text, text), self._text
        end, low = edit.at + len(edit.removed), max(0, edit.at - LONGEST_MARK)
        if not region.holds(edit.at, end, len(before)):
            return False
        marks = self._grammar.marks
        return marks.findall(before[low : end + LONGEST_MARK]) == marks.findall(text[low : edit.end + LONGEST_MARK])

    def _around(self, text: str, cursor: int) -> _Region | None:
        """Return the region of a cursor, None if it is in a sign."""
        grammar, top, nearest, end = self._grammar, 0, None, len(text)
        if head := grammar.head and grammar.head.match(text):
            (start, close), top = head.span(1), head.end()
            if start <= cursor <= close:
                behind = len(text) - close
                return _Region(start, behind, Part(head.lastgroup or "", start, behind, within=self._language))
        for sign in grammar.signs.finditer(text, top):
            if sign.start() >= cursor:
                end = sign.start()
                break
            nearest = sign
        start = nearest.end() if nearest else top
        if cursor < start:
            start = end = cursor
        begins = self._begins(text[: nearest.end()], top) if nearest else None
        if begins is None:
            return _Region(start, len(text) - end, Part(grammar.first) if grammar.first else None)
        sign, language = begins
        return (
            _Region(start, len(text) - end, self._part(language, text, sign, end)) if sign.end() <= cursor else None
        )

    def _parse(self, text: str, top: int) -> tuple[re.Match[str], str] | None:
        """Return the last sign of a text behind which a part begins, and its language; the text ends with a sign."""
        if self._parser is None:
            self._parser = Parser(loaded(self._grammar))
        read = " " * top + text[top:]
        root = self._parser.parse(_encoded(read + self._grammar.closing)).root_node
        for sign in reversed([*self._grammar.signs.finditer(text, top)]):
            byte = len(_encoded(read[: sign.start()]))
            leaf = root.descendant_for_byte_range(byte, byte + 1)
            language = self._grammar.begins(sign, leaf) if leaf else None
            if language is not None:
                return sign, language
        return None

    def _part(self, language: str, text: str, sign: re.Match[str], close: int) -> Part | None:
        """Return the part behind a sign, which ends at an offset or later; None in the document's language."""
        grammar, start = self._grammar, sign.end()
        if not language or (ends := grammar.ends(sign)) is None:
            return Part(language) if language else None
        ending = ends.search(text, close)
        end = ending.start() if ending else len(text)
        part = Part(language, start, len(text) - end, within=self._language, end=ends)
        if grammar.pieces is None:
            return part
        above = grammar.pieces.findall(text, max(0, start - NEAR), sign.start())
        below = grammar.pieces.findall(text, end, end + NEAR)
        return part._replace(above=grammar.joint.join((*above, "")), below=grammar.joint.join(("", *below)))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def parts_of(language: str) -> Parts | None:
    """Return an object that finds the parts of a document in a language, None if documents in it have none."""
    grammar = LANGUAGES[language].mixed
    return Parts(language, grammar) if grammar else None


def part_at(language: str, text: str, cursor: int) -> Part | None:
    """Return the part at a cursor in a text, None where the text is in the document's language."""
    return parts.at(text, cursor) if (parts := parts_of(language)) else None
