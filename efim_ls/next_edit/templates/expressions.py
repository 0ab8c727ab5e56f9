"""Where expressions of a line begin and end, by brackets and quotes."""

from __future__ import annotations

from collections.abc import Iterator

from efim_ls.next_edit.pattern import LINE_END
from efim_ls.next_edit.surroundings import QUOTES
from efim_ls.next_edit.tokens import BRACKETS, Tokens, is_word

SEPARATORS = (",", ";")
_OPENERS = {opener: closer for closer, opener in BRACKETS.items()}
_MIRRORED = BRACKETS | _OPENERS
_ENDS = frozenset((*BRACKETS, *QUOTES, ".", ":"))  # in addition to words: tokens after which an operand may go on


def unit_end(line: Tokens, at: int) -> int | None:
    """Return where brackets or quotes end that open at a token, else the end of the token.

    None if it is a bracket without its partner.
    """
    token = line[at]
    if token in BRACKETS:
        return None
    if token in QUOTES:
        return next((i + 1 for i in range(at + 1, len(line)) if line[i] == token and line[i - 1] != "\\"), at + 1)
    closer = _OPENERS.get(token)
    at += 1
    while closer:
        if at == len(line):
            return None
        if line[at] == closer:
            return at + 1
        end = unit_end(line, at)
        if end is None:
            return None
        at = end
    return at


def ends_of_expression(line: Tokens, at: int, lists: bool) -> Iterator[int]:
    """Yield where an expression may end that begins at a token, the nearest first; `lists`: also behind commas."""
    if at < len(line) and line[at].isspace():
        return
    while at < len(line) and line[at] != LINE_END and (lists or line[at] not in SEPARATORS):
        end = unit_end(line, at)
        if end is None:
            return
        at = end
        if not line[at - 1].isspace():
            yield at


def end_of_operand(line: Tokens, at: int) -> int:
    """Return how far words, members, calls and indices follow each other without a blank."""
    while at < len(line):
        if line[at : at + 2] == (":", ":"):
            at += 2
            continue
        end = unit_end(line, at)
        if end is None or not (end > at + 1 or is_word(line[at]) or line[at] == "."):
            break
        at = end
    return at


def start_of_operand(line: Tokens, at: int) -> int:
    """Return where the operand begins that goes on at a token; the token itself if none does."""
    before = line[at - 1] if at else LINE_END
    if not is_word(before) and before not in _ENDS:
        return at
    mirrored = tuple(_MIRRORED.get(token, token) for token in reversed(line[:at]))
    return at - end_of_operand(mirrored, 0)
