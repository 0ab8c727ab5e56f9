"""A text with the places where its lines start."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

_LF, _CR = ord("\n"), ord("\r")


class LinedText:
    r"""A text that is edited in place. Used on one thread; its immutable `text` may be passed to others.

    Invariant: `_starts` holds, ascending, every p with p == 0, text[p-1] == "\n", or text[p-1] == "\r" and
    text[p] != "\n". No other character ends a line.
    """

    def __init__(self) -> None:
        self.text = ""
        self._starts: NDArray[np.int64] = np.zeros(1, np.int64)

    def copy(self) -> Self:
        """Return one with the same text, which changes by itself."""
        made = type(self)()
        made.text, made._starts = self.text, self._starts
        return made

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds an offset, from 0."""
        return int(np.searchsorted(self._starts, max(offset, 0), side="right")) - 1

    def span(self, line: int) -> tuple[int, int]:
        """Return where a line starts and where what ends it does."""
        start = int(self._starts[line])
        if line + 1 == len(self._starts):
            return start, len(self.text)
        stop = int(self._starts[line + 1])
        return start, stop - (2 if self.text.endswith("\r\n", start, stop) else 1)

    def splice(self, start: int, end: int, new_text: str) -> None:
        """Replace the text from one offset to another."""
        self.text = "".join((self.text[:start], new_text, self.text[end:]))
        first_kept = int(np.searchsorted(self._starts, end, side="right"))
        before = self._starts[: max(1, int(np.searchsorted(self._starts, start)))]
        within = _line_starts(self.text, max(start, 1), start + len(new_text))
        after = self._starts[first_kept:] + (len(new_text) - (end - start))
        self._starts = np.concatenate((before, within, after))


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the numbers of a text's characters."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))


def _line_starts(text: str, low: int, high: int) -> NDArray[np.int64]:
    """Return the line starts p with low <= p <= high; low is at least 1."""
    points = code_points(text[low - 1 : high + 1] + "\0")
    count = max(0, high - low + 1)
    before, at = points[:count], points[1 : count + 1]
    starts = (before == _LF) | ((before == _CR) & (at != _LF))
    return np.flatnonzero(starts).astype(np.int64) + low
