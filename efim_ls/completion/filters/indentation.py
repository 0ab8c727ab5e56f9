"""Adapts a suggestion's indentation to the document's."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from efim_ls.completion.filters.place import Place, indent_of, lines_with
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.brackets import Bracket, brackets_of, close, text_lines

_OPENS_BLOCK = re.compile(r"(?:[(\[{:>=]|\b(?:then|do|else|begin|repeat))$")
_HEADER = re.compile(r"[{:]$")  # what follows is one level deeper, not aligned with anything
_CLOSES_BLOCK = re.compile(r"(?:[)\]}]|end\b)[)\]};,]*")


@dataclass(frozen=True)
class Style:
    """A document's indentation: with tabs or with spaces, and the columns of one level; None is not yet known."""

    tabs: bool | None
    unit: int | None

    @property
    def columns(self) -> int:
        """The columns of one level, four if that is not known."""
        return self.unit or 4

    def width(self, indent: str) -> int:
        """Return the columns that an indentation takes."""
        return len(indent.expandtabs(self.columns))


def indentation(text: str, place: Place) -> str:
    """Indent as the document does, but not twice on the cursor's line, and end with the cursor's block."""
    style = style_of(place)
    return _within_block(_first_line(_converted(text, place, style), place, style), place, style)


def style_of(place: Place) -> Style:
    """Return the style of the cursor's line or, if it is not indented, of the majority of lines around it."""
    lines = [*place.lines_above, place.before, *place.lines_below]
    tabs, spaces = (sum(line.startswith(blank) for line in lines) for blank in ("\t", "  "))
    if place.before[:1] in ("\t", " "):
        return Style(place.before[0] == "\t", _unit(lines))
    return Style(None if tabs == spaces else tabs > spaces, _unit(lines))


def _unit(lines: list[str]) -> int | None:
    """Return the most common step from a line to a deeper one: where there are any, from a block's header."""
    steps, in_blocks = Counter[int](), Counter[int]()
    for line, deeper in pairwise(line for line in lines if not line.startswith("\t")):
        step = len(indent_of(deeper)) - len(indent_of(line))
        if 2 <= step <= 8:
            (in_blocks if _HEADER.search(line) else steps)[step] += 1
    return next((step for step, _ in (in_blocks or steps).most_common(1)), None)


def _converted(text: str, place: Place, style: Style) -> str:
    if style.tabs is None:
        return text
    lines = text.split("\n")
    begun = 1 if place.before.strip() else 0
    own = Style(style.tabs, _spaces_for_tab(lines[begun:]) if style.tabs else style.unit)
    lines = [*lines[:begun], *(_convert(line, own) for line in lines[begun:])]
    if style.tabs or not style.unit or len(lines) == 1:
        return "\n".join(lines)
    columns = _in_levels(lines_with("\n".join(lines), place), style.unit)
    later = zip(columns[1:], lines[1:], strict=True)  # a blank last line is indented by what follows the cursor
    return "\n".join([lines[0], *(" " * at + line.lstrip(" ") if line.strip() else line for at, line in later)])


def _in_levels(lines: list[str], unit: int) -> list[int]:
    """Return the column at which each line begins once every block is one level of the document deeper.

    The first line and shallower lines keep their columns, and aligned lines their distance from the line above.
    """
    columns = [len(indent_of(line)) for line in lines]
    levels, above = [(columns[0], columns[0])], lines[0].rstrip()  # as said, and in the document's levels
    for at, line in enumerate(lines[1:], 1):
        if not line.strip():
            continue
        said = columns[at]
        while levels and levels[-1][0] > said:
            levels.pop()
        outer, column = levels[-1] if levels else (said, said)
        step = said - outer
        if (step and _HEADER.search(above)) or (step % unit and _OPENS_BLOCK.search(above)):
            step = unit
        if step or not levels:
            levels.append((said, column + step))
        columns[at], above = column + step, line.rstrip()
    return columns


def _spaces_for_tab(lines: list[str]) -> int:
    """Return how many spaces a suggestion uses per level: 2 if any line needs that, else 4."""
    indents = [indent_of(line) for line in lines]
    return 2 if any(len(each) % 4 == 2 for each in indents if "\t" not in each) else 4


def _convert(line: str, style: Style) -> str:
    indent = indent_of(line)
    if not style.tabs:
        return indent.replace("\t", " " * style.columns) + line[len(indent) :]
    # An indentation that begins with a tab may end with spaces for alignment.
    if not indent.startswith(" "):
        return line
    tabs, spaces = divmod(style.width(indent), style.columns)
    return "\t" * tabs + " " * spaces + line[len(indent) :]


def _first_line(text: str, place: Place, style: Style) -> str:
    """On an indented blank line, drop leading blanks that would put it deeper than the line above allows.

    At the line's start nothing can be indented twice: a suggestion that is too deep there is dropped.
    """
    blanks = indent_of(text.split("\n", 1)[0])
    if place.before.strip():
        return text
    outdented = LANGUAGES[place.language].outdented
    above = next((line for line in reversed(place.lines_above) if not outdented.match(line)), "")
    allowed = max(style.width(place.before), _depth_after(above, style, place.language))
    if not place.before and style.width(blanks) > allowed:
        return ""
    while blanks and style.width(place.before + blanks) > allowed:
        blanks, text = blanks[1:], text[1:]
    return text


def _depth_after(line: str, style: Style, language: str) -> int:
    """Return the columns of the next line, at most: one level more below what opens a block, or a clause."""
    opens, blocks = _OPENS_BLOCK.search(line) is not None, LANGUAGES[language].word_blocks
    if blocks:
        opened = list[Bracket]()
        close(opened, brackets_of(line, language).signs)
        opens = opens or bool(opened) or blocks.clauses.match(line) is not None
    return style.width(indent_of(line)) + (style.columns if opens else 0)


def _within_block(text: str, place: Place, style: Style) -> str:
    """Stop before a line indented less than the cursor's, or after it if it only closes the block."""
    lines = text.split("\n")
    first, *later = lines_with(text, place)
    base, language = style.width(indent_of(first)), LANGUAGES[place.language]
    texts = text_lines("\n".join([first, *later]), place.language)
    for number, line in enumerate(later, 1):
        if language.outdented.match(line) or number in texts:
            continue
        if line.strip() and style.width(indent_of(line)) < base:
            blocks = language.word_blocks
            closes = _CLOSES_BLOCK.fullmatch(line.strip()) or (blocks is not None and blocks.closes(line))
            return "\n".join(lines[: number + bool(closes)])
    return text
