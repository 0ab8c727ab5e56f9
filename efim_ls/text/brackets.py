"""The brackets, strings and comments of code that is unfinished, without a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
OPENER_OF = {closer: opener for opener, closer in CLOSER_OF.items()} | {"*/": "/*"}
SIGNS = frozenset({*CLOSER_OF, *OPENER_OF})
# What may have several lines, by what opens it, and what closes it.
LONG = {"/*": "*/", '"""': '"""', "'''": "'''", "`": "`"}
ENDS = frozenset({*OPENER_OF, *LONG.values()})
# An apostrophe within a word opens no string.
_DOUBLE = r'''| """(?:\\.|(?!""").)*(?:"""|\Z) | "(?:\\.|[^\\\n"])*(?:"|(?=\n)|\Z) | `(?:\\.|[^\\`])*(?:`|\Z)'''
_SINGLE = r"""
    | (?:(?<!\w)|(?<=\b[bfruBFRUL])|(?<=\b[bfruBFRU][bfruBFRU]))
      (?:'''(?:\\.|(?!''').)*(?:'''|\Z) | '(?:\\.|[^\\\n'])*(?:'|(?=\n)|\Z))"""
_CHARACTER = r"| '(?:\\[^'\n]*|[^\\'\n])'"
_COMMENTS = {"#": r"\#[^\n]*", "--": r"--[^\n]*", "//": r"//[^\n]* | /\*.*?(?:\*/|\Z) | \*/"}


class Bracket(NamedTuple):
    """One sign, and where it stands."""

    sign: str
    at: int


class Brackets(NamedTuple):
    """The brackets of a piece of code in order, and what opens the long string or comment in which it ends.

    `long_ends` are the offsets at which long strings and comments are closed.
    """

    signs: tuple[Bracket, ...]
    inside: str
    long_ends: tuple[int, ...]


@lru_cache(8)  # what stands around a line stays while it is typed
def brackets_of(code: str, language: str) -> Brackets:
    """Return the brackets of a piece of code that begins outside strings and comments."""
    signs, ends, inside = list[Bracket](), list[int](), ""
    for part in _parts(language).finditer(code):
        if part[0] in SIGNS:
            signs.append(Bracket(part[0], part.start()))
        elif opening := next((each for each in LONG if part[0].startswith(each)), None):
            closing = LONG[opening]
            if len(part[0]) >= len(opening + closing) and part[0].endswith(closing):
                ends.append(part.end() - len(closing))
            else:
                inside = opening
    return Brackets(tuple(signs), inside, tuple(ends))


def close(opened: list[Bracket], signs: Iterable[Bracket]) -> list[tuple[Bracket, Bracket | None]]:
    """Go on from brackets that are `opened`; return the closers of `signs`, each with its opener, if any.

    A closer closes the nearest opener of its kind: those that were opened after that one are unfinished.
    """
    closed = list[tuple[Bracket, Bracket | None]]()
    for each in signs:
        if (opener := OPENER_OF.get(each.sign)) is None:
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
    return re.compile(rf"[][(){{}}] | {_COMMENTS[of.comment]} {strings}", re.DOTALL | re.VERBOSE)
