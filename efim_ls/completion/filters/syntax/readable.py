"""Ends a suggestion where its language can be read, if the code around can be with any text there.

Or where a statement ends; and tells whether one breaks off before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Parser

from efim_ls.completion.filters.place import Place, indent_of
from efim_ls.completion.filters.syntax.parsed_suggestion import read
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.brackets import CLOSER_OF, Bracket, brackets_of, close
from efim_ls.text.grammars import grammar_of
from model_runtime.engine.stops import is_closers

LONGEST = 60_000  # characters of a statement that are read, in about a hundredth of a second
SHORT = 8_000  # characters of code that are all read
MOST_ENDS = 16  # ends within the first line that are tried
# A line at the margin that begins a statement which no line above belongs to.
_BEGINS = re.compile(r"^(?!(?:else|elif|except|finally|catch)\b)[\w@]", re.MULTILINE)
_WORDS = re.compile(r"\w+|[^\w\s]")


def readable(text: str, place: Place) -> str:
    """End where the code around can be read; nothing if that is nowhere.

    What the first line opens is closed if that suffices, and a header may lack its body. Nothing is judged in a
    language without a grammar, nor where no text would do, as the code has other errors.
    """
    if not text or grammar_of(place.language) is None:
        return text
    beginnings = _beginnings(text, place) if is_closers(place.rest) else iter([text])
    found = next((each for each in beginnings if _can_be_read(each, place) or _is_header(each, place)), "")
    return text if not found and not _may_be_read(place) else found


def _beginnings(text: str, place: Place) -> Iterator[str]:
    """Yield beginnings of a suggestion, the longest first: its lines, the first one with closers, words of that."""
    lines = text.split("\n")
    for count in range(len(lines), 0, -1):
        yield "\n".join(lines[:count]).rstrip()
    first = next((line for line in lines if line.strip()), "")
    start = text.find(first)
    yield text[: start + len(first)] + _closers(text[: start + len(first)], place)
    for word in [*_WORDS.finditer(first)][:-1][: -MOST_ENDS - 1 : -1]:
        yield text[: start + word.end()]


def _closers(line: str, place: Place) -> str:
    """Return the closing brackets for the brackets that a line leaves open."""
    opened = list[Bracket]()
    close(opened, brackets_of(line, place.language).signs)
    return "".join(CLOSER_OF.get(each.sign, "") for each in reversed(opened))


def _may_be_read(place: Place) -> bool:
    """Return whether some text makes the code readable: none, a name, a statement, a header or the line's end."""
    closers = _closers(place.before + place.rest, place)
    body = ":" + _body(place) if LANGUAGES[place.language].indented else " {}"
    ends = ("", "_", "pass", "if _:", closers, f"_{closers}", f"{closers}{body}", f"_{closers}{body}", body, ": _,")
    quotes = ("", *(quote for quote in "\"'" if quote in place.before))
    return any(_can_be_read(quote + end, place) for quote in quotes for end in ends)


def _is_header(text: str, place: Place) -> bool:
    """Return whether a text ends with the header of a block whose body is all that is missing."""
    return text.endswith(":") and "\n" not in text and _can_be_read(text + _body(place), place)


def _body(place: Place) -> str:
    return f"\n{indent_of(place.before)}    pass"  # in Python a statement, elsewhere a name


def _can_be_read(text: str, place: Place) -> bool:
    return any(_reads(code, place.language) for code in _code(text, place))


def _code(text: str, place: Place) -> Iterator[str]:
    """Yield the statement at the margin that the cursor is in, with a suggestion, then all code if it is short.

    A line of a string may look like a statement.
    """
    line = place.before + text + place.rest
    begin = max((found.start() for found in _BEGINS.finditer(place.above)), default=0)
    end = found.start() if (found := _BEGINS.search(place.below)) else len(place.below)
    if _BEGINS.match(line):
        begin = len(place.above)
    yield f"{place.above[begin:]}{line}\n{place.below[:end]}"
    if len(place.above) + len(place.below) < SHORT:
        yield f"{place.above}{line}\n{place.below}"


@lru_cache(32)
def _reads(code: str, language: str) -> bool:
    if len(code) > LONGEST:
        return False
    if reads := LANGUAGES[language].reads:
        return reads(code)
    grammar = grammar_of(language)
    return grammar is not None and not Parser(grammar).parse(code.encode(errors="replace")).root_node.has_error


def whole_statements(text: str, place: Place) -> str:
    """End after the last line at which a statement ends, or after the first line if none does.

    Before code, which a suggestion leads into, and in a language without a grammar, all of it stays.
    """
    if not is_closers(place.rest):
        return text
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), 1)
    for count in range(len(lines), first, -1):
        part = "\n".join(lines[:count]).rstrip()
        parsed = read(part, place)
        if parsed is None or (parsed.ends_block and not parsed.breaks_off):
            return part
    return "\n".join(lines[:first])


def breaks_off(text: str, place: Place) -> bool:
    """Return whether a suggestion ends within a statement; the head of a block ends none, but is whole."""
    parsed = read(text, place) if is_closers(place.rest) else None
    return parsed is not None and parsed.breaks_off
