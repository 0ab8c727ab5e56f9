r"""Lines of a text by offset, as LSP ends them: at \n, \r\n and \r, nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_END = re.compile(r"\r\n|\n|\r")


def enclosing_line(text: str, offset: int) -> tuple[int, int, int]:
    """Start and end of the line around an offset, and where the next line starts; code points."""
    start = line_start(text, offset)
    end = LINE_END.search(text, offset)
    return (start, end.start(), end.end()) if end else (start, len(text), len(text))


def line_end_in(text: str) -> str:
    """What ends the first line of a text, a line feed where nothing does."""
    end = LINE_END.search(text)
    return end[0] if end else "\n"


def line_start(text: str, offset: int) -> int:
    """Start of the line that an offset is in."""
    feed = text.rfind("\n", 0, offset)
    carriage = text.rfind("\r", feed + 1, offset)
    if 0 <= carriage == offset - 1 and text.startswith("\n", offset):  # between \r and \n is still the line before
        carriage = text.rfind("\r", feed + 1, carriage)
    return max(feed, carriage) + 1


def starts_line(text: str, offset: int) -> bool:
    """Whether a line starts at an offset."""
    return line_start(text, offset) == offset


def lines_upwards(text: str, offset: int) -> Iterator[int]:
    """Starts of the lines at and above an offset, the nearest first."""
    start = line_start(text, offset)
    yield start
    while start > 0:
        start = line_start(text, start - 1)
        yield start
