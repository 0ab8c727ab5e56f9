"""The text of one open file, with positions in code points and in the editor's units, and the last edits of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Encoding = Literal["utf-8", "utf-16", "utf-32"]
Position = tuple[int, int]

MOST_EDITS, MOST_EDITED = 64, 100_000  # edits and their characters that are kept; the last one whole, however long
PAUSE = 5.0  # seconds after which an edit that touches the one before is another one

_LF, _CR = ord("\n"), ord("\r")


@dataclass(frozen=True)
class Change:
    """One edit as an editor sends it; without a complete range, `text` replaces the whole document.

    The characters of its positions count units of `encoding`.
    """

    text: str
    start: Position | None = None
    end: Position | None = None
    encoding: Encoding = "utf-16"

    @property
    def is_whole(self) -> bool:
        """Whether it replaces the whole document."""
        return self.start is None or self.end is None


@dataclass(frozen=True)
class Edit:
    """The text `removed` at the offset `at` was replaced by `added`."""

    at: int
    removed: str
    added: str

    @property
    def end(self) -> int:
        """Where the new characters end."""
        return self.at + len(self.added)


class Document:
    r"""One open file. Used on one thread; its immutable `text` may be passed to others.

    Offsets count code points; the characters of a position count units of the encoding.
    Invariant: `_starts` holds, ascending, every p with p == 0, text[p-1] == "\n", or text[p-1] == "\r" and
    text[p] != "\n". No other character ends a line.
    """

    def __init__(self, uri: str, language: str, text: str, version: int | None = None) -> None:
        self.uri = uri
        self.language = language
        self.version = version
        self._text = ""
        self._starts: NDArray[np.int64] = np.zeros(1, np.int64)
        self.splice(0, 0, text)

    @property
    def text(self) -> str:
        """The whole current text."""
        return self._text

    def offset(self, line: int, character: int, encoding: Encoding) -> int:
        """Return the offset of a position, clamped to its line and to the document.

        A position inside a code point is that code point's start.
        """
        line, units = max(line, 0), max(character, 0)
        if line >= len(self._starts):
            return len(self._text)
        start, end = self._line_span(line)
        # A code point takes at least one unit, so at most `units` of them lie before the position.
        return start + _points_within(self._text[start : min(end, start + units)], units, encoding)

    def position(self, offset: int, encoding: Encoding) -> Position:
        """Return the line and character of an offset; an offset inside a terminator gives the line's end."""
        line = self.line_of(offset)
        start, end = self._line_span(line)
        return line, units(self._text[start : max(start, min(offset, end))], encoding)

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds an offset, from 0."""
        return int(np.searchsorted(self._starts, max(offset, 0), side="right")) - 1

    def apply(self, change: Change) -> Edit:
        """Apply a change; return the edit without the beginning and end that the old and new text share."""
        start, end = self._span(change)
        edit = narrowed(start, self._text[start:end], change.text)
        self.splice(start, end, change.text)
        return edit

    def splice(self, start: int, end: int, new_text: str) -> None:
        """Replace the text from one offset to another; ValueError unless 0 <= start <= end <= len(text)."""
        if not 0 <= start <= end <= len(self._text):
            raise ValueError(f"range {start}..{end} is outside a text of {len(self._text)} code points")
        self._text = "".join((self._text[:start], new_text, self._text[end:]))
        first_kept = int(np.searchsorted(self._starts, end, side="right"))
        before = self._starts[: max(1, int(np.searchsorted(self._starts, start)))]
        within = _line_starts(self._text, max(start, 1), start + len(new_text))
        after = self._starts[first_kept:] + (len(new_text) - (end - start))
        self._starts = np.concatenate((before, within, after))

    def _span(self, change: Change) -> tuple[int, int]:
        if change.start is None or change.end is None:
            return 0, len(self._text)
        start, end = sorted(self.offset(*place, change.encoding) for place in (change.start, change.end))
        return start, end

    def _line_span(self, line: int) -> tuple[int, int]:
        start = int(self._starts[line])
        if line + 1 == len(self._starts):
            return start, len(self._text)
        stop = int(self._starts[line + 1])
        return start, stop - (2 if self._text.endswith("\r\n", start, stop) else 1)


class PastEdit(NamedTuple):
    """`removed` was replaced by `added` at an offset of the text before; `when` is by any monotonic clock.

    `keys` are the edits that were joined to it, of which most were keys.
    """

    uri: str
    at: int
    removed: str
    added: str
    when: float
    keys: int = 1

    def touches(self, later: PastEdit) -> bool:
        """Return whether a later edit changes, precedes or follows what this one added, without a gap."""
        return later.at <= self.at + len(self.added) and self.at <= later.at + len(later.removed)

    def followed_by(self, later: PastEdit) -> PastEdit:
        """Return both as one edit; they must touch."""
        before = max(0, self.at - later.at)
        after = max(0, later.at + len(later.removed) - self.at - len(self.added))
        kept = max(0, later.at - self.at), max(0, later.at + len(later.removed) - self.at)
        return later._replace(
            at=min(self.at, later.at),
            removed=later.removed[:before] + self.removed + later.removed[len(later.removed) - after :],
            added=self.added[: kept[0]] + later.added + self.added[kept[1] :],
            keys=self.keys + later.keys,
        )


class EditHistory:
    """The last edits of a client, oldest first; what is typed without a pause is one edit. Used on one thread."""

    def __init__(self) -> None:
        self._edits: deque[PastEdit] = deque()

    def follow(self, edit: PastEdit) -> None:
        """Note an edit that was just made; one that undoes the last one takes it back."""
        if self._edits and self._continues(self._edits[-1], edit):
            edit = self._edits.pop().followed_by(edit)
        if edit.removed != edit.added:
            self._edits.append(edit)
        size = sum(len(each.removed) + len(each.added) for each in self._edits)
        while len(self._edits) > MOST_EDITS or (size > MOST_EDITED and len(self._edits) > 1):
            oldest = self._edits.popleft()
            size -= len(oldest.removed) + len(oldest.added)

    def recent(self, most: int = MOST_EDITS) -> Sequence[PastEdit]:
        """Return the last edits, the very last one at the end."""
        return tuple(self._edits)[max(0, len(self._edits) - most) :]

    def forget(self, uri: str) -> None:
        """Forget what was edited in a document."""
        self._edits = deque(each for each in self._edits if each.uri != uri)

    @staticmethod
    def _continues(last: PastEdit, edit: PastEdit) -> bool:
        return last.uri == edit.uri and edit.when - last.when <= PAUSE and last.touches(edit)


def narrowed(at: int, old: str, new: str) -> Edit:
    """Return the edit that replaces `old` with `new`, without the beginning and end that both share."""
    most, a, b = min(len(old), len(new)), len(old), len(new)
    before = _common(most, lambda low, high: old[low:high] == new[low:high])
    after = _common(most - before, lambda low, high: old[a - high : a - low] == new[b - high : b - low])
    return Edit(at + before, old[before : a - after], new[before : b - after])


def _common(most: int, same: Callable[[int, int], bool]) -> int:
    """Count equal characters from one end, by bisection because texts may be large."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(low, middle) else (low, middle - 1)
    return low


def _line_starts(text: str, low: int, high: int) -> NDArray[np.int64]:
    """Return the line starts p with low <= p <= high; low is at least 1."""
    points = _code_points(text[low - 1 : high + 1] + "\0")
    count = max(0, high - low + 1)
    before, at = points[:count], points[1 : count + 1]
    starts = (before == _LF) | ((before == _CR) & (at != _LF))
    return np.flatnonzero(starts).astype(np.int64) + low


def _points_within(text: str, units: int, encoding: Encoding) -> int:
    """Return how many whole code points of the text its first `units` units hold."""
    if encoding == "utf-32" or text.isascii():
        return min(units, len(text))
    return int(np.searchsorted(np.cumsum(_widths(text, encoding)), units, side="right"))


def units(text: str, encoding: Encoding) -> int:
    """Return how many units of an encoding a text takes."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    return int(_widths(text, encoding).sum())


def _widths(text: str, encoding: Encoding) -> NDArray[np.int64]:
    """Return the units that each code point takes."""
    points = _code_points(text)
    borders = np.array([0xFFFF] if encoding == "utf-16" else [0x7F, 0x7FF, 0xFFFF])
    return 1 + np.searchsorted(borders, points).astype(np.int64)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
