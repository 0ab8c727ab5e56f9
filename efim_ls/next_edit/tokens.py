"""Lines as tokens, and what an edit changed of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

Tokens = tuple[str, ...]

TOKEN = re.compile(r"\w+|[^\S\n]+|.", re.DOTALL)
NAME = re.compile(r"[^\W\d]\w*")
BRACKETS = {")": "(", "]": "[", "}": "{"}


def tokens(line: str) -> Tokens:
    """Split a line into words, runs of blanks, and single other characters."""
    return tuple(TOKEN.findall(line))


def is_name(token: str) -> bool:
    """Return whether a token can be an identifier."""
    return NAME.fullmatch(token) is not None


def is_word(token: str) -> bool:
    """Return whether a token is a name or a number."""
    return token[:1].isalnum() or token[:1] == "_"


class TokenChange(NamedTuple):
    """The change of a line: `removed`, between `left` and `right`, was replaced by `added`.

    If one token was replaced by another at several places, `left` ends at the first, and `removed` and `added` are
    these tokens.
    """

    left: Tokens
    removed: Tokens
    added: Tokens
    right: Tokens

    @property
    def pair(self) -> tuple[Tokens, Tokens]:
        """The replaced text, and the new text."""
        return self.removed, self.added

    @property
    def only_blanks(self) -> bool:
        """Whether it changes nothing but blanks."""
        return "".join(self.removed).split() == "".join(self.added).split()

    @property
    def unbalances(self) -> bool:
        """Whether it leaves other brackets of its line open, or closes others."""
        before, after = ((*self.left, *side, *self.right) for side in self.pair)
        return balance(before) != balance(after)


def token_change(before: Sequence[str], after: Sequence[str]) -> TokenChange:
    """Return the change between the tokens of a line before and after."""
    replaced = [(i, pair) for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]]
    if len(before) == len(after) and replaced and len({pair for _, pair in replaced}) == 1:
        first, (old, new) = replaced[0]
        return TokenChange(tuple(before[:first]), (old,), (new,), tuple(before[first + 1 :]))
    return difference(before, after)


def difference(before: Sequence[str], after: Sequence[str]) -> TokenChange:
    """Return the narrowest change that makes one sequence of tokens the other."""
    left = common(before, after)
    right = min(common(before[::-1], after[::-1]), min(len(before), len(after)) - left)
    middle = len(before) - right, len(after) - right
    return TokenChange(
        tuple(before[:left]),
        tuple(before[left : middle[0]]),
        tuple(after[left : middle[1]]),
        tuple(before[middle[0] :]),
    )


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many tokens two sequences have in common at their start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def balance(line: Sequence[str]) -> tuple[str, ...]:
    """Return the brackets of tokens that have no partner among them."""
    waiting = list[str]()
    for token in line:
        if token in BRACKETS.values():
            waiting.append(token)
        elif partner := BRACKETS.get(token):
            if waiting and waiting[-1] == partner:
                waiting.pop()
            else:
                waiting.append(token)
    return tuple(waiting)
