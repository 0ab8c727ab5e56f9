"""A change of tokens with what surrounds it, and the places of a text where it could be made again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from efim_ls.next_edit.changes import LONGEST_LINE
from efim_ls.next_edit.tokens import TokenChange, Tokens, common, is_name, tokens
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line

MOST_PLACES = 100  # the nearest ones that are compared
LINE_END = "\n"  # stands for where a line begins and ends among the tokens around a change


class Pattern(NamedTuple):
    """What examples of one change have in common: the tokens, and those around them, from the nearest outwards."""

    removed: Tokens
    added: Tokens
    left: Tokens
    right: Tokens

    @classmethod
    def of(cls, examples: Sequence[TokenChange]) -> Pattern:
        """Return the narrowest one that covers changes of the same tokens."""
        left, right = outwards(examples[-1].left, examples[-1].right)
        for each in examples[:-1]:
            lefts, rights = outwards(each.left, each.right)
            left, right = left[: common(left, lefts)], right[: common(right, rights)]
        return cls(examples[-1].removed, examples[-1].added, left, right)

    @property
    def sought(self) -> re.Pattern[str] | None:
        """What a place has at least: the removed tokens or, for an insertion, a neighbour; None if that is nothing."""
        if "".join(self.removed).strip():
            return re.compile(_bounded("".join(self.removed)))
        left, right = self.left[:1], self.right[:1]
        if {*left, *right} <= {LINE_END}:
            return None
        blanks = re.escape("".join(self.removed)) if self.removed else r"[^\S\r\n]*"
        before = rf"(?<={re.escape(left[0])})" if left and left[0] != LINE_END else ""
        ends = r"(?:[\r\n]|$)" if right == (LINE_END,) else "".join(map(_bounded, right))
        after = f"(?={blanks}{ends})" if right else ""
        return re.compile(before + after)


class Place(NamedTuple):
    """Where a pattern's tokens stand: its line, its offsets, and how many tokens around it are the pattern's."""

    line: int
    start: int
    end: int
    left: int
    right: int
    around: TokenChange

    @property
    def rewritten(self) -> str:
        """Its line after the change; one name is replaced by another in all of it."""
        left, removed, added, right = self.around
        if len(removed) == len(added) == 1 and is_name(removed[0]) and is_name(added[0]):
            left, right = (tuple(added[0] if each == removed[0] else each for each in side) for side in (left, right))
        return "".join((*left, *added, *right))


def places(pattern: Pattern, document: Document, cursor: int) -> Iterator[Place]:
    """Yield where the tokens of a pattern stand, the nearest to the cursor first."""
    sought = pattern.sought
    if sought is None:
        return
    found = [each.start() for each in sought.finditer(document.text)]
    for at in sorted(found, key=lambda at: abs(at - cursor))[:MOST_PLACES]:
        start, end, _ = enclosing_line(document.text, at)
        if end - start > LONGEST_LINE:
            continue
        before, line = tokens(document.text[start:at]), tokens(document.text[start:end])
        after = len(before) + len(pattern.removed)
        if line[: len(before)] != before or line[len(before) : after] != pattern.removed:
            continue
        left, right = outwards(before, line[after:])
        stop = at + sum(map(len, pattern.removed))
        change = TokenChange(before, pattern.removed, pattern.added, line[after:])
        fits = common(left, pattern.left), common(right, pattern.right)
        yield Place(document.line_of(at), at, stop, *fits, change)


def outwards(left: Sequence[str], right: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Return the tokens on both sides from the nearest to where the line ends, without blanks."""
    before = (*(each for each in reversed(left) if not each.isspace()), LINE_END)
    return before, (*(each for each in right if not each.isspace()), LINE_END)


def _bounded(text: str) -> str:
    """Return an expression for a text that begins and ends no word in its midst."""
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    return before + re.escape(text) + (r"(?!\w)" if re.search(r"\w$", text) else "")
