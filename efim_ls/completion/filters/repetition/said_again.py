"""Ends a suggestion before a line, a statement or a sentence of its own that it says again."""

from __future__ import annotations

import re

from efim_ls.completion.filters.place import Place, beginning, indent_of, lines_with
from efim_ls.completion.filters.repetition.lines import has_letters, says_something

WORDS_AGAIN = 5  # words in a row that are said again
_OPENS = ("(", "[", "{")
_OPENS_BLOCK = (":", "{")
_WORD = re.compile(r"[^\W\d][\w'-]*")
_BETWEEN_WORDS = re.compile(r"[`\"*_]*[.,;:!?)]*(?:[ \t]+|[ \t]*\n[ \t]*(?:#+|//+|\*)?[ \t]*)[(`\"*_]*")
_PAUSE = re.compile(r"[.!?](?=\s)|(?=[,;:(\n])")


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
    """Return a line, or if it opens a bracket those up to the line that closes it, as far as they are there."""
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
    """Return the first line of what is said again: with equal lines before it, or else with what opens its block."""
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
