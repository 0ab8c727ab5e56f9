"""The parts of a document in several languages."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Language, Parser

from efim_ls.languages.language import MixedGrammar
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Part
from efim_ls.text.document import narrowed

LONGEST_MARK = 16  # characters
NEAR = 8_000  # characters around a part in which other pieces of its program are read
KNOWN_SIGNS = 8  # that need not be read again


class _Region(NamedTuple):
    """The characters of a text between two signs, from `start` to `behind` before the end, and the part there."""

    start: int
    behind: int
    part: Part | None

    def holds(self, start: int, end: int, length: int) -> bool:
        """Return whether a range of a text with so many characters lies in it."""
        return self.start <= start and end <= length - self.behind


class Parts:
    """The parts of one document. Used on one thread.

    What a sign begins depends on the text up to it alone. So typing between two signs changes nothing, unless it
    makes or breaks one; and then only the text up to the nearest sign is parsed, unless it was before.
    """

    def __init__(self, language: str, grammar: MixedGrammar) -> None:
        self._language, self._grammar = language, grammar
        self._text = ""
        self._region: _Region | None = None  # around the last cursor in the last text
        self._parser: Parser | None = None
        self._begins = lru_cache(KNOWN_SIGNS)(self._read_sign)

    def at(self, text: str, cursor: int) -> Part | None:
        """Return the part at a cursor, None where the document is in its own language."""
        if self._region and not self._stays(self._region, text):
            self._region = None
        self._text = text
        if self._region is None or not self._region.holds(cursor, cursor, len(text)):
            self._region = self._around(text, cursor)
        return self._region and self._region.part

    def _stays(self, region: _Region, text: str) -> bool:
        """Return whether an edit that made this text of the last one lies between the same two signs."""
        if text is self._text:
            return True
        edit, before = narrowed(0, self._text, text), self._text
        end, low = edit.at + len(edit.removed), max(0, edit.at - LONGEST_MARK)
        if not region.holds(edit.at, end, len(before)):
            return False
        marks = self._grammar.marks
        return marks.findall(before[low : end + LONGEST_MARK]) == marks.findall(text[low : edit.end + LONGEST_MARK])

    def _around(self, text: str, cursor: int) -> _Region | None:
        """Return what is around a cursor, None if that is in a sign."""
        grammar, top, before = self._grammar, 0, list[re.Match[str]]()
        if grammar.head and (head := grammar.head.match(text)):
            start, top = head.start("code"), head.end()
            if start <= cursor <= head.end("code"):
                behind = len(text) - head.end("code")
                return _Region(start, behind, Part("typescript", start, behind, within=self._language))
        end = len(text)
        for sign in grammar.signs.finditer(text, top):
            if sign.start() >= cursor:
                end = sign.start()
                break
            before.append(sign)
        start = before[-1].end() if before else top
        if cursor < start:  # in a sign
            start = end = cursor
        for sign in reversed(before):
            language = self._begins(" " * top + text[top : sign.end()], sign.start())
            if language is not None:
                is_behind = sign.end() <= cursor
                return _Region(start, len(text) - end, self._part(language, text, sign, end)) if is_behind else None
        return _Region(start, len(text) - end, Part(grammar.first) if grammar.first else None)

    def _read_sign(self, text: str, at: int) -> str | None:
        """Return the language that begins behind the sign with which a text ends."""
        if self._parser is None:
            self._parser = Parser(Language(self._grammar.load()))
        code, byte = (
            (text + self._grammar.closing).encode("utf-8", "replace"),
            len(text[:at].encode("utf-8", "replace")),
        )
        leaf = self._parser.parse(code).root_node.descendant_for_byte_range(byte, byte + 1)
        sign = self._grammar.signs.match(text, at)
        return self._grammar.begins(sign, leaf) if sign and leaf else None

    def _part(self, language: str, text: str, sign: re.Match[str], close: int) -> Part | None:
        """Return the part behind a sign, which ends at an offset or further on; None if it has no own language."""
        grammar, start = self._grammar, sign.end()
        if not language or grammar.ends is None:
            return Part(language) if language else None
        ending = grammar.ends(sign).search(text, close)
        end = ending.start() if ending else len(text)
        part = Part(language, start, len(text) - end, within=self._language)
        if grammar.pieces is None:
            return part
        above = grammar.pieces.findall(text, max(0, start - NEAR), sign.start())
        below = grammar.pieces.findall(text, end, end + NEAR)
        return part._replace(above="".join(f"{each}\n" for each in above), below="\n".join(("", *below)))


def parts_of(language: str) -> Parts | None:
    """Return what finds the parts of a document in a language, None if all of it is in that."""
    grammar = LANGUAGES[language].mixed
    return Parts(language, grammar) if grammar else None


def part_at(language: str, text: str, cursor: int) -> Part | None:
    """Return the part at a cursor in a text, None where it is in the language of all of it."""
    return parts.at(text, cursor) if (parts := parts_of(language)) else None
