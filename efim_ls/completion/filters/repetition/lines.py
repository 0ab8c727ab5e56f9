"""Which lines say something, and where a suggestion says one again that the block above it has said."""

from __future__ import annotations

import re
from itertools import takewhile
from os.path import commonprefix

from efim_ls.completion.filters.place import Place, beginning, indent_of, lines_with

REACH = 12  # lines that are not blank, counted upwards, in which a copy is not wanted
_ALONE = r"""
    None | True | False | begin | break | continue | default | do | else | end | fi | finally | nil | null | pass
    | raise | return | self | super | then | this | throw | true | false | try | yield
"""
# Such words alone, decorators, directives in prose, and what opens a bracket.
_SAYS_NOTHING = re.compile(rf"[\W\d_]*(?:(?:{_ALONE})\b[\W\d_]*)* | \s*(?:@|\.\.[ ]).* | .*[(\[{{]", re.VERBOSE)
_DEFINES = re.compile(r"\s*(?:async\s+)?(?:def|class)\b")  # `redefinition` judges these: some are overloaded
_WORD_AT_END = re.compile(r"\w*$")


def near_copies(text: str, place: Place) -> str:
    """End before a line that stands near above in its block; of the first line, keep what the lines beside it share.

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


def says_something(line: str) -> bool:
    """Return whether a line says more than `else:` or `call(`, which may stand wherever they are needed."""
    return _SAYS_NOTHING.fullmatch(line) is None


def has_letters(line: str) -> bool:
    """Return whether there is a letter or digit in a line."""
    return any(map(str.isalnum, line))


def _block_above(line: str, above: list[str]) -> list[str]:
    """Return the lines above a line, the nearest first, as far as they are indented as much or more."""
    depth = len(indent_of(line))
    return list(takewhile(lambda each: len(indent_of(each)) >= depth, reversed(above)))


def _shared_beginning(line: str, others: list[str]) -> int:
    """Return the most characters of a line, in whole words, with which another one begins, too."""
    return max((_shared(line, other) for other in others if other != line), default=0)


def _shared(line: str, other: str) -> int:
    size = len(commonprefix([line, other]))
    inside = any(re.match(r"\w", each[size:]) for each in (line, other))
    found = _WORD_AT_END.search(line[:size])
    return found.start() if inside and found else size
