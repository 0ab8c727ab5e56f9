"""Ends a suggestion before what has been said: a line above it, or its own line, statement or sentence."""

from __future__ import annotations

import re
from itertools import takewhile
from os.path import commonprefix

from efim_ls.completion.filters.place import Place, beginning, has_letters, indent_of, lines_with

REACH = 12  # lines that are not blank, counted upwards, in which a copy is not wanted
_ALONE = r"""
    None | True | False | begin | break | continue | default | do | else | end | fi | finally | nil | null | pass
    | raise | return | self | super | then | this | throw | true | false | try | yield
"""
# Such words alone, decorators, directives in prose, and what opens a bracket.
_SAYS_NOTHING = re.compile(rf"[\W\d_]*(?:(?:{_ALONE})\b[\W\d_]*)* | \s*(?:@|\.\.[ ]).* | .*[(\[{{]", re.VERBOSE)
_DEFINES = re.compile(r"\s*(?:async\s+)?(?:def|class)\b")  # `redefinition` judges these: some are overloaded
_WORD_AT_END = re.compile(r"\w*$")
WORDS_AGAIN = 5  # words in a row that are said again
_OPENS = ("(", "[", "{")
_OPENS_BLOCK = (":", "{")
_WORD = re.compile(r"[^\W\d][\w'-]*")
_BETWEEN_WORDS = re.compile(r"[`\"*_]*[.,;:!?)]*(?:[ \t]+|[ \t]*\n[ \t]*(?:#+|//+|\*)?[ \t]*)[(`\"*_]*")
_PAUSE = re.compile(r"[.!?](?=\s)|(?=[,;:(\n])")


def near_copies(text: str, place: Place) -> str:
    """End before a line that stands near above in its block; keep the part of the first that its neighbours share.

    A line that begins like those above mostly goes on in another way.
    """
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    said = place.lines_above[-REACH:]
    for number, line in enumerate(whole):
        block = _block_above(line, said) if line in said and not _DEFINES.match(line) else []
        if line in block and (says_something(line) or (line == block[0] and has_letters(line))):
            start = len("\n".join(lines[:number])) + (number > 0)
            shared = 0 if any(map(str.strip, lines[:number])) else _shared_beginning(line, block)
            own = shared - (len(place.before) if number == 0 else 0)
            return beginning(text, start + own, place) if own > 0 else text[: max(0, start - 1)]
        said = [*said, line][-REACH:] if line else said
    return text


def lines_again(text: str, place: Place) -> str:
    """End before a line or a statement over several lines that stood in the suggestion, or was typed, before."""
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    if len({*whole}) == len(whole):
        return text
    statements = [_statement(whole, number) for number in range(len(whole))]
    for number in range(1, len(whole)):
        twin = next((each for each in range(number) if _is_again(statements, each, number)), None)
        if twin is not None:
            return "\n".join(lines[: _begin(whole, twin, number)])
    return text


def _statement(lines: list[str], first: int) -> list[str]:
    """Return a line or, if it opens a bracket, the lines up to the closing line or the end."""
    line, size = lines[first], 1
    if line.endswith(_OPENS):
        inner = (bool(each) and len(indent_of(each)) <= len(indent_of(line)) for each in lines[first + 1 :])
        size += next((count for count, closes in enumerate(inner, 1) if closes), len(lines))
    return lines[first : first + size]


def _is_again(statements: list[list[str]], twin: int, number: int) -> bool:
    """Return whether a statement is one before, or as much of it as is there."""
    before, again = statements[twin], statements[number]
    if before[0] != again[0]:
        return False
    if len(again) > 1:
        return before[: len(again)] == again and has_letters(again[0])
    says = says_something if twin < number - 1 else has_letters
    return before == again and says(again[0]) and not again[0].endswith(",")


def _begin(lines: list[str], twin: int, number: int) -> int:
    """Return the first repeated line: with equal lines before it, or else with the line that opens its block."""
    depth = len(indent_of(lines[number]))
    while number - 1 > twin > 0 and lines[number - 1] == lines[twin - 1]:
        number, twin = number - 1, twin - 1
    while number > 1 and _is_header(lines[number - 1], depth):
        number -= 1
    return number


def _is_header(line: str, depth: int) -> bool:
    return line.endswith(_OPENS_BLOCK) and len(indent_of(line)) < depth


def sentences_again(text: str, place: Place) -> str:
    """End before five words in a row that stood in the suggestion or on its line before, at the last pause."""
    if text.count(" ") < WORDS_AGAIN - 1:
        return text
    said, cursor = place.before + text, len(place.before)
    seen = dict[tuple[str, ...], int]()  # where words in a row end
    row = list[re.Match[str]]()
    for word in _WORD.finditer(said):
        if row and not _BETWEEN_WORDS.fullmatch(said, row[-1].end(), word.start()):
            row = []
        row = [*row[1 - WORDS_AGAIN :], word]
        if len(row) < WORDS_AGAIN:
            continue
        words = tuple(each[0].lower() for each in row)
        first_end = seen.setdefault(words, word.end())
        if first_end <= row[0].start() and word.end() > cursor:
            return beginning(text, max(0, _last_pause(said, first_end, row[0].start()) - cursor), place)
    return text


def _last_pause(text: str, start: int, end: int) -> int:
    """Return where the last sentence, clause or line ends, or else the end."""
    return max((found.end() for found in _PAUSE.finditer(text, start, end)), default=end)


def says_something(line: str) -> bool:
    """Return whether a line says more than `else:` or `call(`, which may stand wherever they are needed."""
    return _SAYS_NOTHING.fullmatch(line) is None


def _block_above(line: str, above: list[str]) -> list[str]:
    """Return the lines above a line, the nearest first, while they are indented as much or more."""
    depth = len(indent_of(line))
    return list(takewhile(lambda each: len(indent_of(each)) >= depth, reversed(above)))


def _shared_beginning(line: str, others: list[str]) -> int:
    """Return the length of the common beginning of two lines, in whole words."""
    return max((_shared(line, other) for other in others if other != line), default=0)


def _shared(line: str, other: str) -> int:
    size = len(commonprefix([line, other]))
    inside = any(re.match(r"\w", each[size:]) for each in (line, other))
    found = _WORD_AT_END.search(line[:size])
    return found.start() if inside and found else size
