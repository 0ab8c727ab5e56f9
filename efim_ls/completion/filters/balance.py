"""Which brackets and strings a piece of code opens and closes, without knowing its language."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

_OPENERS, _CLOSERS = "([{<", ")]}>"
_TOKEN = re.compile(r"""\\.|[-=]>|[<>]=|\"""|'''|["'`()\[\]{}<>\n]""", re.DOTALL)
_STRING_PREFIX = re.compile(r"(?:^|\W)[bfruBFRUL]{0,2}$")
_LIFETIME = re.compile(r"'\w+(?![\w'])")


class Balance(NamedTuple):
    """The state after some code: closers without an opener, brackets still open, the quote of an open string."""

    unmatched: int = 0
    open: int = 0
    quote: str = ""


class BalancedCode:
    """Code that is parsed once and then cut at many offsets, each with its balance.

    `angles`: whether < and > are brackets.
    """

    def __init__(self, code: str, angles: bool) -> None:
        self._code = code
        self._angles = angles
        steps = list(_steps(code, 0, Balance(), angles))
        self._ends = [end for end, _ in steps]
        self._balances = [balance for _, balance in steps]

    def cut(self, at: int, rest: str) -> Balance:
        """Return the balance of the code up to an offset, followed by `rest`."""
        known = bisect_right(self._ends, at) - 1
        code = self._code[:at] + rest
        *_, (_, balance) = _steps(code, self._ends[known], self._balances[known], self._angles)
        return balance


def _steps(code: str, start: int, balance: Balance, angles: bool) -> Iterator[tuple[int, Balance]]:
    """Yield the start, then the end of each token after it, with the balance of the code before."""
    yield start, balance
    for match in _TOKEN.finditer(code, start):
        token = match[0]
        if balance.quote or token[0] in "\"'`":
            balance = balance._replace(quote=_quote_after(balance.quote, token, code, match.start()))
        elif angles or token not in "<>":
            balance = _after_bracket(balance, token)
        yield match.end(), balance


def _after_bracket(balance: Balance, token: str) -> Balance:
    if token in _OPENERS:
        return balance._replace(open=balance.open + 1)
    if token not in _CLOSERS:
        return balance
    if balance.open:
        return balance._replace(open=balance.open - 1)
    return balance._replace(unmatched=balance.unmatched + 1)


def _quote_after(quote: str, token: str, code: str, at: int) -> str:
    """Return the quote of the string still open after a token that is a quote or inside a string, else ''."""
    if not quote:
        return token if token != "'" or _apostrophe_opens(code, at) else ""
    ends_line = token == "\n" and quote in "\"'"
    return "" if ends_line or token.startswith(quote) else quote


def _apostrophe_opens(code: str, at: int) -> bool:
    """Return whether an apostrophe opens a string, unlike the apostrophe of a word (don't) or a lifetime (&'a)."""
    lifetime = code[at - 1 : at] in ("&", "<") and _LIFETIME.match(code, at)
    return not lifetime and _STRING_PREFIX.search(code[max(0, at - 3) : at]) is not None
