"""A change of tokens with what surrounds it, and the places of a text where it could be made again."""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from efim_ls.next_edit.changes import LONGEST_LINE
from efim_ls.next_edit.tokens import TokenChange, Tokens, is_name, is_word, tokens
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line

MOST_PLACES = 48  # the nearest places that are compared
BLANKS = r"[^\S\r\n]"
HOLE = ""  # stands for any word among the tokens around a change
NEIGHBOURS = 3  # tokens on each side of an insertion that are searched for
LINE_END = "\n"  # stands for where a line begins and ends among the tokens around a change


class Pattern(NamedTuple):
    """What examples of one change have in common: the tokens, and those around them, from the nearest outwards.

    HOLE stands for words that differ. `gap` are the blanks between the nearest token on the left and the change.
    """

    removed: Tokens
    added: Tokens
    left: Tokens
    right: Tokens
    gap: str

    @classmethod
    def of(cls, examples: Sequence[TokenChange]) -> Pattern:
        """Return the narrowest template that covers changes of the same tokens."""
        last = examples[-1]
        left, right = outwards(last.left, last.right)
        for each in examples[:-1]:
            lefts, rights = outwards(each.left, each.right)
            left, right = covering(left, lefts), covering(right, rights)
        gap = last.left[-1] if last.left and last.left[-1].isspace() else ""
        return cls(last.removed, last.added, left, right, gap)

    def found_in(self, text: str) -> list[int]:
        """Return where a change may be: at the removed tokens or, for an insertion, between its neighbours."""
        removed = "".join(self.removed)
        if removed.strip():
            return [each.start() for each in re.finditer(whole_words(removed), text)]
        if {HOLE, LINE_END}.issuperset((*self.left[:NEIGHBOURS], *self.right[:NEIGHBOURS])):
            return []
        # A search is fast if it begins with a literal: holes beyond the known tokens are matched afterwards.
        known = next((i for i, each in enumerate(self.left) if each in (HOLE, LINE_END)), len(self.left))
        beyond = self.left[known] if known < min(len(self.left), NEIGHBOURS) else None
        before = [_expression(each) for each in reversed(self.left[: min(known, NEIGHBOURS)])]
        after = f"{BLANKS}*".join(_expression(each) for each in self.right[:NEIGHBOURS])
        if not before and after and self.right[0] != HOLE:
            return list(self._found_before(text, f"{re.escape(removed)}{after}", beyond))
        if not before and beyond is not None:
            before, beyond = [_expression(beyond)], None
        gap = BLANKS + ("+" if self.gap else "*?") if before else ""
        sought = f"{f'{BLANKS}*'.join(before)}{gap}(?={re.escape(removed)}{BLANKS}*{after})"
        found = re.finditer(sought, text, re.MULTILINE)
        return [each.end() for each in found if _is_behind(text, each.start(), beyond)]

    def _found_before(self, text: str, sought: str, beyond: str | None) -> Iterator[int]:
        """Yield where a change may be in front of the searched text, if only `beyond` is known on its left."""
        for each in re.finditer(sought, text, re.MULTILINE):
            at, end = each.start(), _before_blanks(text, each.start())
            if beyond is None:
                yield from range(end, at + 1)
            elif _is_behind(text, end, beyond) and (at > end or not self.gap):
                yield at if self.gap else end


class Occurrence(NamedTuple):
    """Where a pattern's tokens stand: its line, its offsets, the tokens around it outwards, and its change.

    `left` and `right` are how many tokens around it are the pattern's. If it `is_alone`, nothing else in its line
    changes.
    """

    line: int
    start: int
    end: int
    outwards: tuple[Tokens, Tokens]
    left: int
    right: int
    around: TokenChange
    is_alone: bool = False

    @property
    def rewritten(self) -> str:
        """Its line after the change; one name is replaced by another in all of it."""
        left, removed, added, right = self.around
        if not self.is_alone and len(removed) == len(added) == 1 and is_name(removed[0]) and is_name(added[0]):
            left, right = (tuple(added[0] if each == removed[0] else each for each in side) for side in (left, right))
        return "".join((*left, *added, *right))


def occurrences(pattern: Pattern, document: Document, cursor: int) -> Iterator[Occurrence]:
    """Yield where the tokens of a pattern stand, the nearest to the cursor first."""
    for at, start, text in nearest(document.text, pattern.found_in(document.text), cursor):
        line = tokens(text)
        starts = list(accumulate(map(len, line), initial=start))
        first = bisect_left(starts, at)
        after = first + len(pattern.removed)
        if line[first:after] != pattern.removed or starts[first] != at:
            continue
        around = TokenChange(line[:first], pattern.removed, pattern.added, line[after:])
        left, right = outwards(around.left, around.right)
        fits = fitting(left, pattern.left), fitting(right, pattern.right)
        yield Occurrence(document.line_of(at), at, starts[after], (left, right), *fits, around)


def nearest(text: str, found: Sequence[int], cursor: int) -> Iterator[tuple[int, int, str]]:
    """Yield the offsets that are nearest to the cursor, the nearest first, where their lines start, and these."""
    middle = bisect(found, cursor)
    near = found[max(0, middle - MOST_PLACES) : middle + MOST_PLACES]
    for at in sorted(near, key=lambda at: abs(at - cursor))[:MOST_PLACES]:
        start, end, _ = enclosing_line(text, at)
        if end - start <= LONGEST_LINE:
            yield at, start, text[start:end]


def outwards(left: Sequence[str], right: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Return the tokens on both sides from the nearest to where the line ends, without blanks."""
    before = (*(each for each in reversed(left) if not each.isspace()), LINE_END)
    return before, (*(each for each in right if not each.isspace()), LINE_END)


def fitting(around: Sequence[str], pattern: Sequence[str]) -> int:
    """Return how many tokens on one side are the pattern's, from the nearest outwards."""
    pairs = zip(around, pattern, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] or (pair[1] == HOLE and is_word(pair[0])), pairs))


def covering(one: Tokens, other: Tokens) -> Tokens:
    """Return the tokens that two sides have in common, with holes where words differ."""
    found = list[str]()
    for a, b in zip(one, other, strict=False):
        if a != b and not ((a == HOLE or is_word(a)) and is_word(b)):
            break
        found.append(a if a == b else HOLE)
    return tuple(found)


def _is_behind(text: str, at: int, token: str | None) -> bool:
    """Return whether an offset is behind a word or where a line begins, blanks aside; None stands for anything."""
    if token is None:
        return True
    at = _before_blanks(text, at)
    if token == HOLE:
        return at > 0 and is_word(text[at - 1])
    return at == 0 or text[at - 1] in "\r\n"


def _before_blanks(text: str, at: int) -> int:
    """Return where the blanks before an offset begin in its line."""
    while at and text[at - 1].isspace() and text[at - 1] not in "\r\n":
        at -= 1
    return at


def _expression(token: str) -> str:
    if token == LINE_END:
        return r"(?:^|$|(?=\r))"
    return r"\w+" if token == HOLE else whole_words(token)


def whole_words(text: str) -> str:
    """Return an expression for a text that begins and ends no word in its midst.

    The text comes first in it, since what begins with a literal is searched for several times faster.
    """
    literal = re.escape(text)
    before = rf"(?<!\w{literal})" if re.match(r"\w", text) else ""
    return literal + before + (r"(?!\w)" if re.search(r"\w$", text) else "")
