"""The brackets, strings and comments of code that is unfinished, without a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
OPENER_OF = {closer: opener for opener, closer in CLOSER_OF.items()} | {"*/": "/*"}
SIGNS = frozenset({*CLOSER_OF, *OPENER_OF})
# What may have several lines, by what opens it, and what closes it.
LONG = {"/*": "*/", '"""': '"""', "'''": "'''", "`": "`"}
QUOTES = {quote: quote for quote in "\"'`"}  # where all strings may have several lines
ENDS = frozenset({*OPENER_OF, *LONG.values()})
# An apostrophe within a word opens no string.
_DOUBLE = r'''| """(?:\\.|(?!""").)*(?:"""|\Z) | "(?:\\.|[^\\\n"])*(?:"|(?=\n)|\Z) | `(?:\\.|[^\\`])*(?:`|\Z)'''
_SINGLE = r"""
    | (?:(?<!\w)|(?<=\b[bfruBFRUL])|(?<=\b[bfruBFRU][bfruBFRU]))
      (?:'''(?:\\.|(?!''').)*(?:'''|\Z) | '(?:\\.|[^\\\n'])*(?:'|(?=\n)|\Z))"""
_LONG_QUOTES = r"""| "(?:\\.|[^\\"])*(?:"|\Z) | '[^']*(?:'|\Z) | `(?:\\.|[^\\`])*(?:`|\Z)"""
_CHARACTER = r"| '(?:\\[^'\n]*|[^\\'\n])'"
_WORD = "…"  # stands before the closing word in the sign of a word that opens a block
_COMMENTS = {"#": r"\#[^\n]*", "--": r"--[^\n]*", "//": r"//[^\n]* | /\*.*?(?:\*/|\Z) | \*/"}


class Bracket(NamedTuple):
    """One sign, or word of a block, and where it stands."""

    sign: str
    at: int


class Brackets(NamedTuple):
    """The brackets of a piece of code in order, and what opens the long string, comment or text in which it ends.

    `long_ends` are the offsets at which long strings and comments are closed.
    """

    signs: tuple[Bracket, ...]
    inside: str
    long_ends: tuple[int, ...]


@lru_cache(8)  # what stands around a line stays while it is typed
def brackets_of(code: str, language: str) -> Brackets:
    """Return the brackets of a piece of code that begins outside strings and comments."""
    code, document = without_documents(code, language)
    signs, ends, inside = list[Bracket](), list[int](), ""
    blocks, long = LANGUAGES[language].word_blocks, QUOTES if LANGUAGES[language].long_quotes else LONG
    for part in _parts(language).finditer(code):
        if part[0] in SIGNS:
            signs.append(Bracket(part[0], part.start()))
        elif blocks and (kind := part.lastgroup):
            word = part[kind]
            signs.append(Bracket(word if kind == "closes" else _WORD + blocks.closers[word], part.start(kind)))
        elif opening := next((each for each in long if part[0].startswith(each)), None):
            closing = long[opening]
            if len(part[0]) >= len(opening + closing) and part[0].endswith(closing):
                ends.append(part.end() - len(closing))
            else:
                inside = opening
    return Brackets(tuple(signs), document or inside, tuple(ends))


class HereDocument(NamedTuple):
    """Lines of text in code: where what begins them stands, their own start, and their end, None if they go on."""

    begun: re.Match[str]
    start: int
    end: int | None


def here_documents(code: str, language: str) -> Iterator[HereDocument]:
    """Yield the here-documents of a piece of code, in order."""
    pattern, at = LANGUAGES[language].here_document, 0
    while pattern and (begun := pattern.search(code, at)):
        at = code.find("\n", begun.end()) + 1 or len(code)
        last = re.compile(rf"^[ \t]*{re.escape(begun['end'])}(?=[ \t]*$|[;,.)\]])", re.MULTILINE).search(code, at)
        yield HereDocument(begun, at, last and last.end())
        at = last.end() if last else len(code)


def text_lines(code: str, language: str) -> set[int]:
    """Return the numbers of the lines that here-documents have in a piece of code, the last ones included."""
    numbers = set[int]()
    for _, start, end in here_documents(code, language):
        numbers.update(range(code.count("\n", 0, start), code.count("\n", 0, end) + 1))
    return numbers


def without_documents(code: str, language: str) -> tuple[str, str]:
    """Return code with blanks for the text of here-documents, and what begins the one in which it ends."""
    for begun, start, end in here_documents(code, language):
        text = code[start:end]
        code = code[:start] + re.sub(r"[^\n]", " ", text) + code[start + len(text) :]
        if end is None:
            return code, f"{begun[0]}\n"
    return code, ""


def close(opened: list[Bracket], signs: Iterable[Bracket]) -> list[tuple[Bracket, Bracket | None]]:
    """Go on from brackets that are `opened`; return the closers of `signs`, each with its opener, if any.

    A closer closes the nearest opener of its kind: those that were opened after that one are unfinished.
    """
    closed = list[tuple[Bracket, Bracket | None]]()
    for each in signs:
        opener = OPENER_OF.get(each.sign) or (_WORD + each.sign if each.sign.isalpha() else None)
        if opener is None:
            opened.append(each)
            continue
        at = next((at for at in range(len(opened) - 1, -1, -1) if opened[at].sign == opener), None)
        closed.append((each, None if at is None else opened[at]))
        if at is not None:
            del opened[at:]
    return closed


@lru_cache(16)
def _parts(language: str) -> re.Pattern[str]:
    of = LANGUAGES[language]
    strings = _CHARACTER + _DOUBLE if of.single_quotes == "characters" else _DOUBLE + _SINGLE
    strings = _LONG_QUOTES if of.long_quotes else strings
    first = "".join(f"{each} | " for each in (of.skipped, of.word_blocks.words if of.word_blocks else "") if each)
    return re.compile(rf"{first}[][(){{}}] | {_COMMENTS[of.comment]} {strings}", re.DOTALL | re.VERBOSE)
