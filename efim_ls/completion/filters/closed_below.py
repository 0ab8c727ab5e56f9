"""Ends a suggestion before it closes a bracket, a string or a comment that is closed further on."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from operator import le
from typing import NamedTuple

from efim_ls.completion.filters.place import Place, indent_of
from efim_ls.languages.table import PROSE
from efim_ls.text.brackets import LONG, Bracket, Brackets, brackets_of, close
from model_runtime.engine.stops import is_closers

FAR = 20_000  # characters above and below in which brackets are looked for


def closed_below(text: str, place: Place) -> str:
    """End before what leaves a closer further on with nothing to close.

    Brackets alone do not tell where the code around is unfinished: where the next line is deeper than the line that
    opens a block, the block goes on. Prose has closers that close nothing, as lists and faces do.
    """
    if place.language in PROSE:
        return text
    around = _Around.of(place.above[-FAR:], place.below[:FAR], place.language)
    closers = around.closers(text, place)
    if not closers:
        return text
    least = around.faults("", place)
    for end in (len(text), *reversed(closers)):
        if all(map(le, around.faults(text[:end], place), least)):
            return text if end == len(text) else _ended(text, end, place)
    return ""


class _Around(NamedTuple):
    """The openers above the cursor's line that are open there, and in which string or comment it begins.

    Openers stand at negative offsets, from the line's start. `next_indent` is the indentation of the next line that
    is not blank, -1 if there is none.
    """

    opened: tuple[Bracket, ...]
    inside: str
    above: str
    below: str
    next_indent: int
    language: str

    @staticmethod
    @lru_cache(4)  # it stays while a line is typed
    def of(above: str, below: str, language: str) -> _Around:
        """Read the lines around the cursor's."""
        before, opened = brackets_of(above, language), list[Bracket]()
        close(opened, [Bracket(sign, at - len(above)) for sign, at in before.signs])
        following = next((line for line in below.splitlines() if line.strip()), None)
        next_indent = -1 if following is None else _width(following)
        return _Around(tuple(opened), before.inside, above, below, next_indent, language)

    def closers(self, text: str, place: Place) -> list[int]:
        """Return the offsets in a suggestion at which it closes brackets that it has not opened."""
        line, start = self._line(text, place), len(place.before)
        own = [each for each in line.signs if start <= each.at < start + len(text)]
        ends = [end for end in line.long_ends if start <= end < start + len(text)]
        closed = (closer.at for closer, opener in close([], own) if opener is None)
        return sorted(at - start for at in (*closed, *ends))

    def faults(self, text: str, place: Place) -> tuple[float, float]:
        """Return how many closers close nothing with a suggestion: on its lines, and with those below.

        A string that never ends is one more; to close a block that goes on below is infinitely many.
        """
        opened, start, line = [*self.opened], len(place.before), self._line(text, place)
        closed = close(opened, line.signs)
        own = range(start, start + len(text))
        if any(opener and closer.at in own and self._goes_on(opener) for closer, opener in closed):
            return inf, inf
        here = sum(opener is None for _, opener in closed)
        below = brackets_of(line.inside + self.below, self.language)
        return here, here + sum(opener is None for _, opener in close(opened, below.signs)) + (below.inside in LONG)

    def _goes_on(self, opener: Bracket) -> bool:
        """Return whether the next line is deeper than the line above that has an opener."""
        if opener.at >= 0:
            return False
        begin = self.above.rfind("\n", 0, opener.at) + 1
        return self.next_indent > _width(self.above[begin : opener.at])

    def _line(self, text: str, place: Place) -> Brackets:
        """Return the brackets of the cursor's line with a suggestion, with offsets in it."""
        line, shift = brackets_of(f"{self.inside}{place.before}{text}{place.rest}", self.language), len(self.inside)
        signs = tuple(Bracket(sign, at - shift) for sign, at in line.signs)
        return Brackets(signs, line.inside, tuple(end - shift for end in line.long_ends))


def _ended(text: str, end: int, place: Place) -> str:
    """Return the text up to a closer; before code, only if that begins with the closer."""
    if is_closers(place.rest):
        return text[:end].rstrip()
    return text[:end] if place.rest.lstrip()[:1] == text[end] else ""


def _width(line: str) -> int:
    return len(indent_of(line).expandtabs(4))
