"""Filters that end a suggestion before it repeats itself, or the file near it."""

from __future__ import annotations

import re
from itertools import groupby, takewhile
from os.path import commonprefix

from efim_ls.completion.filters.place import Place, beginning, filled_lines, has_letters, indent_of, lines_with
from efim_ls.text.lines import line_end_in

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
COPIED_LINES = 3  # lines with a letter or digit that make a copy
EQUAL_TURNS = 3  # of lines
LONGEST_TURN = 4  # lines
LOOP_LENGTH = 60
LONGEST_PERIOD = 30
MOST_ALIKE = 8  # equal characters in a row
MOST_TURNS = 5  # of signs in a row, where the suggestion ends them itself; otherwise three
ENOUGH_TURNS = 3  # left of the cursor: a further turn is not suggested
_RUN = re.compile(rf"(\S)\1{{{MOST_ALIKE},}}")
_TURNS = re.compile(rf"((?:[^\w\n]|_){{2,8}}?)\1{{{ENOUGH_TURNS},}}")
_DIGITS = re.compile(r"\d+")


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


def lines_below(text: str, place: Place) -> str:
    """Cut the last lines if they repeat the document's next lines, everything if the first lines do."""
    below = place.lines_below
    if _starts_like(below, text, place):
        return ""
    lines = [line.rstrip() for line in lines_with(text, place)]
    filled = [number for number, line in enumerate(lines) if number and line]
    for count in range(min(len(filled), len(below)), 0, -1):
        if [lines[number] for number in filled[-count:]] == below[:count]:
            return "\n".join(text.split("\n")[: filled[-count]])
    return text


def _starts_like(below: list[str], text: str, place: Place) -> bool:
    """Return whether the suggestion's whole lines begin like the document's next lines.

    Two lines are compared if both sides have two: many blocks begin with the same decorator.
    """
    first, _, later = text.partition("\n")
    if not place.before.strip() or first.strip():
        written = filled_lines(f"{place.before}{text}{place.rest}")
    else:
        written = filled_lines(later + place.rest)
    shared = min(2, len(written), len(below))
    return shared > 0 and written[:shared] == below[:shared]


def copies(text: str, place: Place) -> str:
    """Cut lines that stand in the same order elsewhere in the file, three or more, to the first of them."""
    lines = text.split("\n")
    if len(lines) < COPIED_LINES:
        return text
    whole = [line.rstrip() for line in lines_with(text, place)]
    said = [number for number, line in enumerate(lines) if has_letters(line)]
    end = line_end_in(place.above or place.below)
    for first, last in zip(said, said[COPIED_LINES - 1 :], strict=False):
        run = end.join(whole[first : last + 1])
        if _holds_lines(place.above, run) or _holds_lines(place.below, run):
            return "\n".join(lines[: first + 1])
    return text


def _holds_lines(text: str, run: str) -> bool:
    """Return whether whole lines of a text are equal to `run`."""
    at = text.find(run)
    while at >= 0:
        after = at + len(run)
        if text[at - 1 : at] in ("", "\n", "\r") and text[after : after + 1] in ("", "\n", "\r"):
            return True
        at = text.find(run, at + 1)
    return False


def repetition(text: str, place: Place) -> str:
    """Keep one of three or more equal lines, and one turn of a loop."""
    return _without_loop(_without_ladder(_without_equal_lines(text, place), place))


def _without_equal_lines(text: str, place: Place) -> str:
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    kept: list[str] = []
    for _, group in groupby(range(len(lines)), key=whole.__getitem__):
        run = list(group)
        kept += [lines[number] for number in (run[:1] if len(run) >= EQUAL_TURNS else run)]
    return "\n".join(kept)


def _without_ladder(text: str, place: Place) -> str:
    """End after the first of three turns of lines that differ only in numbers and in growing indentation."""
    lines = text.split("\n")
    whole = [line.rstrip() for line in lines_with(text, place)]
    for start in range(len(whole)):
        for size in range(1, min(LONGEST_TURN, (len(whole) - start) // EQUAL_TURNS) + 1):
            if _is_ladder(whole[start : start + EQUAL_TURNS * size], size):
                return "\n".join(lines[: start + size])
    return text


def _is_ladder(lines: list[str], size: int) -> bool:
    """Return whether lines are turns of `size` lines that say the same, none shallower than the turn before."""
    said = [_DIGITS.sub("0", line.strip()) for line in lines]
    if said[size:] != said[:-size] or not any(map(has_letters, said[:size])):
        return False
    depths = [len(indent_of(line)) for line in lines]
    return all(after >= before for before, after in zip(depths, depths[size:], strict=False))


def _without_loop(text: str) -> str:
    period = _period(text[-LOOP_LENGTH:])
    if len(text) < LOOP_LENGTH or period > LONGEST_PERIOD or not has_letters(text[-period:]):
        return text
    start = len(text) - LOOP_LENGTH
    while start and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return text[: _end_of_turn(text, start, period)]


def _end_of_turn(text: str, start: int, period: int) -> int:
    """Return where to end the loop after one turn: at a line's end, else at the same point of the turn as now."""
    newline = text.find("\n", start + period - 1, start + 2 * period)
    return newline if newline >= 0 else start + period + (len(text) - start) % period


def _period(text: str) -> int:
    """Return the smallest p with text[i] == text[i + p] throughout, by Knuth, Morris and Pratt's borders."""
    borders = [0] * (len(text) + 1)
    border = 0
    for end in range(1, len(text)):
        while border and text[end] != text[border]:
            border = borders[border]
        border += text[end] == text[border]
        borders[end + 1] = border
    return len(text) - borders[-1]


def turns_of_signs(text: str, place: Place) -> str:
    """Keep one turn of signs that come over and over (`../`, `?, `), and none where three stand left of the cursor.

    Runs as long as one elsewhere in the file are kept, as well as the rule of a table below its head.
    """
    cursor, line = len(place.before), place.before + text
    for run in _TURNS.finditer(line):
        turn = run[1]
        count, goes_on = len(run[0]) // len(turn), turn.startswith(line[run.end() :])
        if run.end() <= cursor or len({*turn}) == 1 or not (goes_on or count > MOST_TURNS):
            continue
        if not _is_known(turn, count, place) and not _rules_table(turn, count, place):
            left = max(0, cursor - run.start()) // len(turn)
            kept = 0 if left >= ENOUGH_TURNS else run.start() + (left + 1) * len(turn) - cursor
            return beginning(text, kept, place)
    return text


def _rules_table(turn: str, count: int, place: Place) -> bool:
    return any(bar in turn and _last_line(place.near_above).count(bar) >= count for bar in "|+")


def signs(text: str, place: Place) -> str:
    """End before a character that stands more than eight times in a row, those left of the cursor included.

    A rule may be as long as another rule in the file, or as the line above, which it underlines.
    """
    cursor = len(place.before)
    start = len(place.before.rstrip(place.before[-1:])) if place.before else 0
    line = place.before + text
    for run in _RUN.finditer(line, start):
        if run.end() > cursor and not _is_known(run[1], len(run[0]), place) and not _underlines(run, place):
            return beginning(text, max(0, run.start() - cursor), place)
    return text


def _is_known(turn: str, count: int, place: Place) -> bool:
    """Return whether turns stand in the file, no more and no fewer in a row."""
    sign = re.escape(turn)
    whole = re.compile(rf"(?<!{sign})(?:{sign}){{{count}}}(?!{sign})")
    return any(whole.search(part) for part in (place.above, place.below))


def _underlines(run: re.Match[str], place: Place) -> bool:
    """Return whether a run ends its line below a line of the same beginning and width."""
    above, _, line = run.string[: run.end()].rpartition("\n")
    above = above.rpartition("\n")[2] if run.string.find("\n", 0, run.end()) >= 0 else _last_line(place.near_above)
    begun = len(line) - len(run[0])
    ended = run.string[run.end() : run.end() + 1] in ("", "\n")
    return ended and above[:begun] == line[:begun] and len(above.rstrip()) == len(line)


def _last_line(text: str) -> str:
    return (text.splitlines() or [""])[-1]
