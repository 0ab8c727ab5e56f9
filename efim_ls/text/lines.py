r"""Lines of a text by offset, and text as models read it. As in LSP, only \n, \r\n and \r end a line.

As models read it, a text's lines end in \n, and there is neither a byte order mark nor half a surrogate pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_END = re.compile(r"\r\n|\n|\r")
MARK = "\ufeff"  # at the beginning of a text
_OTHERWISE = re.compile("[\r\ufeff\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def enclosing_line(text: str, offset: int) -> tuple[int, int, int]:
    """Return the start and end of the line around an offset and the start of the next line, in code points."""
    start = line_start(text, offset)
    end = LINE_END.search(text, offset)
    return (start, end.start(), end.end()) if end else (start, len(text), len(text))


def line_end_in(text: str) -> str:
    """Return the terminator of a text's first line, a line feed if it has only one line."""
    end = LINE_END.search(text)
    return end[0] if end else "\n"


def line_start(text: str, offset: int) -> int:
    """Return the start of the line that an offset is in."""
    feed = text.rfind("\n", 0, offset)
    carriage = text.rfind("\r", feed + 1, offset)
    if 0 <= carriage == offset - 1 and text.startswith("\n", offset):  # between \r and \n is still the first line
        carriage = text.rfind("\r", feed + 1, carriage)
    return max(feed, carriage) + 1


def starts_line(text: str, offset: int) -> bool:
    """Return whether a line starts at an offset; looks at two characters, however long the line above is."""
    before = text[max(0, offset - 1) : offset]
    return offset == 0 or before == "\n" or (before == "\r" and not text.startswith("\n", offset))


def lines_upwards(text: str, offset: int) -> Iterator[int]:
    """Yield the starts of the lines at and above an offset, nearest first."""
    start = line_start(text, offset)
    yield start
    while start > 0:
        start = line_start(text, start - 1)
        yield start


def line_starts_after(text: str, piece: str, low: int, high: int) -> Iterator[int]:
    """Yield where lines start directly after a piece of text that lies between two offsets, the last one first."""
    at = text.rfind(piece, low, high)
    while at >= 0:
        end = at + len(piece)
        if starts_line(text, end):
            yield end
        at = text.rfind(piece, low, max(low, end - 1))


def is_normalized(text: str) -> bool:
    """Return whether a text is read as it is, at any place in other text."""
    return "\r" not in text if text.isascii() else _OTHERWISE.search(text) is None


def normalized(text: str, start: int = 0, end: int | None = None) -> str:
    """Return a text, or a part of it that no line end crosses, as it is read."""
    part = text[start:end]
    if is_normalized(part):
        return part
    if start == 0:
        part = part.removeprefix(MARK)
    return _HALF.sub("\ufffd", part.replace("\r\n", "\n").replace("\r", "\n"))


def joined(text: str) -> str:
    """Return a text in which halves of surrogate pairs that stand together are one code point."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
