"""A change of tokens that was made twice, and not the same twice: literal tokens, and holes for what differed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from efim_ls.next_edit.pattern import LINE_END, Occurrence, covering, fitting, nearest, outwards, whole_words
from efim_ls.next_edit.templates.generalize import (
    Contents,
    Hole,
    Part,
    end_of_operand,
    ends_of_expression,
    filled,
    generalized,
    rebuilt,
    start_of_operand,
)
from efim_ls.next_edit.tokens import BRACKETS, TokenChange, Tokens, balance, difference, tokens
from efim_ls.text.document import Document

MOST_PLACES = 20  # the nearest ones whose lines are compared, since a template takes longer than a pattern
MOST_TOKENS = 200  # of a line that is an example
# Whether the change is extended to the left and to the right, one after the other until a template is found.
EXTENSIONS = ((False, False), (True, False), (False, True), (True, True))


class Rewritten(NamedTuple):
    """A line before and after a change, without the end of the line."""

    before: Tokens
    after: Tokens


class EditTemplate(NamedTuple):
    """The removed and the added tokens, with holes, and the tokens around them that examples share, outwards.

    LINE_END stands for where a line begins and ends. A hole holds an expression or, at an end of `removed`,
    an operand.
    """

    removed: tuple[Part, ...]
    added: tuple[Part, ...]
    left: Tokens
    right: Tokens

    @property
    def literals(self) -> Tokens:
        """The tokens, without blanks, that every place has."""
        return tuple(part for part in self.removed if isinstance(part, str) and not part.isspace())

    @property
    def dropped(self) -> int:
        """How many holes hold text that is not added again."""
        removed, added = (
            {part.number for part in side if isinstance(part, Hole)} for side in (self.removed, self.added)
        )
        return len(removed - added)

    @property
    def drawn(self) -> tuple[str, str]:
        """The removed and the added text, in which holes are numbers in angle brackets."""
        removed, added = (
            "".join(part if isinstance(part, str) else f"<{part.number}>" for part in side)
            for side in (self.removed, self.added)
        )
        return removed, added

    def changes(self, line: Tokens) -> Iterator[TokenChange]:
        """Yield how it would change a line, for each place of it from left to right."""
        whole, end = _whole(line), 0
        if not set(whole).issuperset(self.literals):
            return
        for at, token in enumerate(whole):
            if at >= end and self._may_begin(whole, at, token):
                match = next(self._following(whole, at, 0, {}), None)
                if match:
                    end, held = match
                    around = whole[:at], whole[at:end], filled(self.added, held), whole[end:]
                    yield TokenChange(*(tuple(each for each in side if each != LINE_END) for side in around))

    def explaining(self, example: Rewritten) -> TokenChange | None:
        """Return the change that makes the new line, if there is one."""
        changes = self.changes(example.before)
        return next((each for each in changes if (*each.left, *each.added, *each.right) == example.after), None)

    def _may_begin(self, line: Tokens, at: int, token: str) -> bool:
        first = self.removed[0]
        return token == first if isinstance(first, str) else start_of_operand(line, at) == at

    def _following(self, line: Tokens, at: int, number: int, held: Contents) -> Iterator[tuple[int, Contents]]:
        """Yield where the parts from one on may end, and what the holes hold then, the shortest contents first."""
        while number < len(self.removed):
            part = self.removed[number]
            if isinstance(part, Hole) and part.number not in held:
                for end in self._ends(line, at, number, part):
                    yield from self._following(line, end, number + 1, {**held, part.number: line[at:end]})
                return
            known = (part,) if isinstance(part, str) else held[part.number]
            if line[at : at + len(known)] != known:
                return
            at, number = at + len(known), number + 1
        yield at, held

    def _ends(self, line: Tokens, at: int, number: int, hole: Hole) -> Iterator[int]:
        """Yield where a hole may end that begins at a token."""
        if 0 < number < len(self.removed) - 1:
            yield from ends_of_expression(line, at, hole.lists)
            return
        operand = end_of_operand(line, at)
        if number == 0:
            yield from takewhile(lambda end: end <= operand, ends_of_expression(line, at, hole.lists))
        elif operand > at:
            yield operand


@lru_cache(maxsize=256)
def template_of(one: Rewritten, other: Rewritten) -> EditTemplate | None:
    """Return the narrowest template that makes both changed lines.

    None if the added tokens differ in something else than the removed ones, or if nothing differs.
    """
    if max(map(len, (*one, *other))) > MOST_TOKENS:
        return None
    changed = [_balanced(difference(_whole(each.before), _whole(each.after))) for each in (one, other)]
    found = list[EditTemplate]()
    for sides in EXTENSIONS:
        template = _covering(*(_extended(each, *sides) for each in changed))
        if template and template.explaining(one) and template.explaining(other):
            found.append(template)
            if not template.dropped:
                break
    return min(found, key=lambda each: each.dropped, default=None)


def occurrences(template: EditTemplate, document: Document, cursor: int) -> Iterator[Occurrence]:
    """Yield where a template matches, by line, the nearest one to the cursor first."""
    text, seen = document.text, set[int]()
    found = [each.start() for each in re.finditer(whole_words(_sought(template)), text)]
    for _, start, line in islice(nearest(text, found, cursor), MOST_PLACES):
        if start in seen:
            continue
        seen.add(start)
        for each in template.changes(tokens(line)):
            at = start + sum(map(len, each.left))
            around = outwards(each.left, each.right)
            fits = fitting(around[0], template.left), fitting(around[1], template.right)
            end = at + sum(map(len, each.removed))
            yield Occurrence(document.line_of(at), at, end, around, *fits, each)


def _sought(template: EditTemplate) -> str:
    """Return the longest text that every place has."""
    runs = [""]
    for part in template.removed:
        if isinstance(part, Hole) or part == LINE_END:
            runs.append("")
        else:
            runs[-1] += part
    return max(runs, key=lambda run: len(run.strip()))


def _covering(one: TokenChange, other: TokenChange) -> EditTemplate | None:
    """Return what two changes have in common; None if it has no literal token, or no hole, or cannot be rebuilt."""
    removed = generalized(one.removed, other.removed)
    if removed is None or not removed.held[0]:
        return None
    added = rebuilt(one.added, other.added, removed.held)
    if added is None:
        return None
    (left, right), (lefts, rights) = outwards(other.left, other.right), outwards(one.left, one.right)
    template = EditTemplate(removed.parts, added, covering(left, lefts), covering(right, rights))
    return template if template.literals else None


def _whole(line: Tokens) -> Tokens:
    return (LINE_END, *line, LINE_END)


def _balanced(change: TokenChange) -> TokenChange:
    """Extend the change until no bracket in it has its partner outside."""
    while True:
        open_ = {token for side in change.pair for token in balance(side)}
        if change.right and not open_.isdisjoint(BRACKETS.values()):
            change = _extended_by(change, 0, 1)
        elif change.left and not open_.isdisjoint(BRACKETS):
            change = _extended_by(change, 1, 0)
        else:
            return change


def _extended(change: TokenChange, left: bool, right: bool) -> TokenChange:
    """Extend the change by an operand, or another token, to the left and to the right."""
    if left:
        at = len(change.left) - _blanks(change.left[::-1])
        change = _extended_by(change, len(change.left) - min(start_of_operand(change.left, at), max(at - 1, 0)), 0)
    if right:
        at = _blanks(change.right)
        change = _extended_by(change, 0, min(max(end_of_operand(change.right, at), at + 1), len(change.right)))
    return change


def _blanks(line: Tokens) -> int:
    """Return how many blanks tokens begin with; the end of a line is none."""
    return next((i for i, each in enumerate(line) if each == LINE_END or not each.isspace()), 0)


def _extended_by(change: TokenChange, left: int, right: int) -> TokenChange:
    """Extend the change by `left` and `right` tokens to the two sides."""
    at = len(change.left) - left
    before, after = change.left[at:], change.right[:right]
    removed, added = ((*before, *side, *after) for side in change.pair)
    return TokenChange(change.left[:at], removed, added, change.right[right:])
