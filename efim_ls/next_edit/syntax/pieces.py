"""Parts of a document that are parsed: a whole file would take too long for a key."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Node, Parser

from efim_ls.languages.table import LANGUAGES
from efim_ls.text.document import Document
from efim_ls.text.grammars import grammar_of
from efim_ls.text.lines import lines_upwards

MOST_PARSED = 10_000  # characters of a block, in about 1 ms
CLOSERS = (")", "]", "}")
LINE = re.compile(r"^([^\S\r\n]*)(\S?)", re.MULTILINE)


class Piece(NamedTuple):
    """A part of a document that was parsed, from an offset on."""

    start: int
    text: str
    root: Node

    def node(self, at: int) -> Node | None:
        """Return the smallest node at an offset of the document."""
        byte = len(self.text[: at - self.start].encode("utf-8", "replace"))
        return self.root.descendant_for_byte_range(byte, byte + 1)

    def offset(self, byte: int) -> int:
        """Return the offset in the document of a byte of the piece."""
        return self.start + len(self.text.encode("utf-8", "replace")[:byte].decode("utf-8", "ignore"))


def piece_at(document: Document, at: int) -> Piece | None:
    """Parse the largest block around an offset that is not too long, if there is one."""
    parsed = _parsed(document.language, document.text)
    piece = next((each for each in parsed if each.start <= at < each.start + len(each.text)), None)
    if piece is None and (piece := _largest(document.language, document.text, at)):
        parsed.append(piece)
    return piece


@lru_cache(maxsize=2)
def _parsed(language: str, text: str) -> list[Piece]:
    """Return the blocks of a text that were parsed, to which others are added."""
    return []


def _largest(language: str, text: str, at: int) -> Piece | None:
    indent, starts = sys.maxsize, list[int]()
    for start in lines_upwards(text, at):
        here = _indent(text, start)
        if here < indent and not _continues(text, start + here, language):
            indent = here
            starts.append(start)
        if indent == 0 or at - start > MOST_PARSED:
            break
    for start in reversed(starts):
        end = _block_end(language, text, start, _indent(text, start))
        if at < end <= start + MOST_PARSED:
            root = _root(language, text[start:end])
            return Piece(start, text[start:end], root) if root else None
    return None


def _block_end(language: str, text: str, start: int, indent: int) -> int:
    """Return where the lines below a block's first one end that are indented further, go on with it, or close it."""
    for line in LINE.finditer(text, start, start + MOST_PARSED + 1):
        here = len(line[1])
        if (
            line.start() > start
            and line[2]
            and (here < indent or (here == indent and not _continues(text, line.end(1), language)))
        ):
            return line.start()
    return min(len(text), start + MOST_PARSED + 1)


def _continues(text: str, at: int, language: str) -> bool:
    """Return whether what begins a line closes a block, or goes on with a block of words."""
    blocks = LANGUAGES[language].word_blocks
    return text.startswith(CLOSERS, at) or (blocks is not None and blocks.goes_on(text, at))


def _indent(text: str, start: int) -> int:
    """Return how many blanks a line begins with; very many if it has nothing else."""
    line = LINE.match(text, start)
    return len(line[1]) if line and line[2] else sys.maxsize


@lru_cache(maxsize=16)
def _root(language: str, code: str) -> Node | None:
    grammar = grammar_of(language)
    return Parser(grammar).parse(code.encode("utf-8", "replace")).root_node if grammar else None
