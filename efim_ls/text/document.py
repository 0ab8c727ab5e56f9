"""The text of one open file, with positions in code points and in the editor's units, and the last edits of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from efim_ls.languages.table import language_named
from efim_ls.text.lines import MARK, is_normalized, joined, line_end_in, normalized

Encoding = Literal["utf-8", "utf-16", "utf-32"]
Position = tuple[int, int]

MOST_EDITS, MOST_EDITED = 64, 100_000  # edits and their characters that are kept; the last one whole, however long
PAUSE = 5.0  # seconds after which an edit that touches the last one is a new edit
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


class Document:
    r"""One open file, as its editor has it and as models read it. Used on one thread; its texts may go to others.

    `text` is what models read: its lines end in \n, and it has neither a byte order mark nor half a surrogate pair.
    Offsets count its code points; the characters of a position count units of the encoding in the editor's text.
    Both texts have the same lines, and are one if the editor's needs no change.
    """

    def __init__(self, uri: str, language: str, text: str, version: int | None = None) -> None:
        self.uri = uri
        self.language = language_named(language, uri)
        self.version = version
        self._editor = self._read = LinedText()
        self._replace(0, 0, joined(text))

    @property
    def text(self) -> str:
        """The whole current text as models read it."""
        return self._read.text

    @property
    def editor_text(self) -> str:
        """The whole current text as the editor has it."""
        return self._editor.text

    @property
    def line_end(self) -> str:
        """What ends the lines of the editor's text."""
        return line_end_in(self._editor.text)

    def offset(self, line: int, character: int, encoding: Encoding) -> int:
        """Return the offset of a position, clamped to its line and to the document.

        A position inside a code point is that code point's start.
        """
        return self._read_offset(self._place(line, character, encoding).at)

    def position(self, offset: int, encoding: Encoding) -> Position:
        """Return the line and character of an offset."""
        line = self._read.line_of(offset)
        start, end = self._editor.span(line)
        at = start + min(offset, len(self.text)) - self._read.span(line)[0] + self._mark(line)
        return line, units(self._editor.text[start : max(start, min(at, end))], encoding)

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds an offset, from 0."""
        return self._read.line_of(offset)

    def apply(self, change: Change) -> Edit:
        """Apply a change; return the edit of `text` without the beginning and end that the old and new one share.

        In UTF-16 a change may begin or end inside a pair, and halves that meet are one code point.
        """
        if change.start is None or change.end is None:
            before = self.text
            self._editor = self._read = LinedText()
            self._replace(0, 0, joined(change.text))
            return narrowed(0, before, self.text)
        places = (self._place(*each, change.encoding) for each in (change.start, change.end))
        start, end = sorted(places)
        if change.encoding != "utf-16":
            return self._replace(start.at, end.at, change.text)
        text, first, after = self._editor.text, start.at, end.at + end.is_inside
        left = _halves(text[first])[0] if start.is_inside else ""
        right = _halves(text[end.at])[1] if end.is_inside else ""
        if not left and "\ud800" <= text[first - 1 : first] <= "\udbff":
            left, first = text[first - 1], first - 1
        if not right and "\udc00" <= text[after : after + 1] <= "\udfff":
            right, after = text[after], after + 1
        return self._replace(first, after, joined(f"{left}{change.text}{right}"))

    def splice(self, start: int, end: int, new_text: str) -> None:
        """Replace the text from one offset to another; ValueError unless 0 <= start <= end <= len(text)."""
        if not 0 <= start <= end <= len(self.text):
            raise ValueError(f"range {start}..{end} is outside a text of {len(self.text)} code points")
        self._replace(self._editor_offset(start), self._editor_offset(end), new_text)

    def _replace(self, start: int, end: int, new: str) -> Edit:
        """Replace a range of the editor's text; return the edit of the text that is read."""
        if self._editor is self._read:
            if is_normalized(new):
                edit = narrowed(start, self.text[start:end], new)
                self._editor.splice(start, end, new)
                return edit
            self._read = self._editor.copy()
        low, high = _reaching(self._editor.text, start, end)
        first, last = self._read_offset(low), self._read_offset(high)
        old, size = self.text[first:last], len(self._editor.text)
        self._editor.splice(start, end, new)
        kept = normalized(self._editor.text, low, high + len(self._editor.text) - size)
        self._read.splice(first, last, kept)
        return narrowed(first, old, kept)

    def _place(self, line: int, character: int, encoding: Encoding) -> _Place:
        """Return where a position is in the editor's text, clamped to its line and to the document."""
        line, character, text = max(line, 0), max(character, 0), self._editor.text
        if line >= self._editor.lines:
            return _Place(len(text), False)
        start, end = self._editor.span(line)
        # A code point takes at least one unit, so at most `character` of them lie before the position.
        near = text[start : min(end, start + character)]
        points = _points_within(near, character, encoding)
        is_inside = points < len(near) and units(near[:points], encoding) < character
        return _Place(start + points, is_inside)

    def _read_offset(self, at: int) -> int:
        """Return the offset of a place in the editor's text."""
        if self._editor is self._read:
            return at
        line = self._editor.line_of(at)
        column = at - self._editor.span(line)[0] - self._mark(line)
        return self._read.span(line)[0] + max(0, column)

    def _editor_offset(self, offset: int) -> int:
        """Return where an offset is in the editor's text."""
        line = self._read.line_of(offset)
        return self._editor.span(line)[0] + offset - self._read.span(line)[0] + self._mark(line)

    def _mark(self, line: int) -> int:
        """Return how many characters of a line are a byte order mark."""
        return int(line == 0 and self._editor.text.startswith(MARK))


class _Place(NamedTuple):
    """An offset of the editor's text, or a place inside the code point there."""

    at: int
    is_inside: bool


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
    """The last edits of a client, oldest first; typing without a pause is one edit. Used on one thread."""

    def __init__(self) -> None:
        self._edits: deque[PastEdit] = deque()

    def follow(self, edit: PastEdit) -> None:
        """Note an edit that was just made; undoing the last edit takes it back."""
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
        """Forget the edits of a document."""
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


def _reaching(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range of the editor's text, widened to a line end or mark that a replacement would change."""
    if start == 0:
        end = min(end + 1, len(text))
    return start - text.startswith("\r", start - 1, start), end + text.startswith("\n", end)


def _halves(character: str) -> tuple[str, str]:
    """Return the two halves of a surrogate pair."""
    high, low = divmod(ord(character) - 0x10000, 0x400)
    return chr(0xD800 + high), chr(0xDC00 + low)


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
    points = code_points(text)
    borders = np.array([0xFFFF] if encoding == "utf-16" else [0x7F, 0x7FF, 0xFFFF])
    return 1 + np.searchsorted(borders, points).astype(np.int64)


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


@dataclass(frozen=True)
class Suggestion:
    r"""A text that was suggested at the offset `start`; its lines end in \n, whatever ends the document's lines."""

    start: int
    text: str

    def typed(self, text: str, cursor: int) -> int | None:
        """Return how many of its characters stand before the cursor, None if others do."""
        if not 0 <= cursor - self.start <= 2 * len(self.text):  # line ends of two characters make it longer
            return None
        typed = text[self.start : cursor].replace("\r\n", "\n").replace("\r", "\n")
        return len(typed) if self.text.startswith(typed) else None

    def left(self, text: str, cursor: int) -> str:
        """Return its rest at the cursor; empty if all of it is typed, or anything else."""
        typed = self.typed(text, cursor)
        return "" if typed is None else self.text[typed:]


def begin_alike(one: str, other: str) -> bool:
    """Return whether one of two texts is the beginning of the other, and neither is empty."""
    return bool(one and other) and (one.startswith(other) or other.startswith(one))
