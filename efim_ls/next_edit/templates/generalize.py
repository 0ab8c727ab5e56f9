"""Where expressions of a line end, and the least general generalization of two, with holes for what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from efim_ls.next_edit.pattern import LINE_END
from efim_ls.next_edit.situation import QUOTES
from efim_ls.next_edit.tokens import BRACKETS, Tokens, is_word

SEPARATORS = (",", ";")
_OPENERS = {opener: closer for closer, opener in BRACKETS.items()}
_MIRRORED = BRACKETS | _OPENERS
_ENDS = frozenset((*BRACKETS, *QUOTES, ".", ":"))  # in addition to words: tokens after which an operand may go on
MOST_COMPARED = 400  # pairs of units, so that no key waits
LITERAL, BLANKS, HOLES = 2, 1, -1  # the gain of each

Contents = Mapping[int, Tokens]  # of holes, by their numbers


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


class Hole(NamedTuple):
    """Stands for an expression; `lists`: for several, with commas between them."""

    number: int
    lists: bool = False


class _Gap(NamedTuple):
    """What differs between two sequences at one place."""

    one: Tokens
    other: Tokens
    lists: bool = False


Part = str | Hole
_Aligned = tuple[int, tuple[str | _Gap, ...]]  # the gain, and the parts


class Generalized(NamedTuple):
    """Literal tokens and holes, and what the holes hold in each of two examples."""

    parts: tuple[Part, ...]
    held: tuple[Contents, Contents]


def generalized(one: Tokens, other: Tokens) -> Generalized | None:
    """Return the narrowest generalization whose holes hold expressions; None if there is none.

    What differs in the same way at several places is one hole.
    """
    aligned = _aligned(one, other)
    if aligned is None:
        return None
    holes = dict[_Gap, Hole]()
    parts = list[Part]()
    for part in aligned[1]:
        if isinstance(part, _Gap):
            parts.append(holes.setdefault(part, Hole(len(holes), part.lists)))
        else:
            parts.append(part)
    held = {hole.number: gap.one for gap, hole in holes.items()}, {h.number: g.other for g, h in holes.items()}
    return Generalized(tuple(parts), held)


def rebuilt(one: Tokens, other: Tokens, held: tuple[Contents, Contents]) -> tuple[Part, ...] | None:
    """Return two sequences as their common parts and holes with the rest; None if something else differs."""
    holes = sorted(held[0], key=lambda number: len(held[0][number]), reverse=True)

    @cache
    def follow(i: int, j: int) -> tuple[Part, ...] | None:
        if i == len(one) and j == len(other):
            return ()
        for number in holes:
            ends = i + len(held[0][number]), j + len(held[1][number])
            if one[i : ends[0]] == held[0][number] and other[j : ends[1]] == held[1][number]:
                rest = follow(*ends)
                if rest is not None:
                    return (Hole(number), *rest)
        if one[i : i + 1] == other[j : j + 1]:
            rest = follow(i + 1, j + 1)
            return None if rest is None else (one[i], *rest)
        return None

    return follow(0, 0)


def filled(parts: Sequence[Part], held: Contents) -> Tokens:
    """Return parts with what their holes hold."""
    return tuple(token for part in parts for token in ((part,) if isinstance(part, str) else held[part.number]))


def _aligned(one: Tokens, other: Tokens) -> _Aligned | None:
    """Align two sequences between each two commas."""
    pieces = _pieces(one), _pieces(other)
    if len(pieces[0]) != len(pieces[1]):
        return (HOLES, (_Gap(one, other, lists=True),)) if min(map(len, pieces)) > 1 else None
    gained, parts = 0, list[str | _Gap]()
    for a, b in zip(*pieces, strict=True):
        aligned = _aligned_piece(a, b)
        if aligned is None:
            return None
        gained += aligned[0]
        parts += aligned[1]
    return gained, tuple(parts)


def _pieces(line: Tokens) -> list[list[Tokens]]:
    """Split tokens into units, and these behind each comma or semicolon."""
    pieces = [list[Tokens]()]
    for unit in _units(line):
        pieces[-1].append(unit)
        if unit[0] in SEPARATORS:
            pieces.append([])
    return pieces


def _units(line: Tokens) -> Iterator[Tokens]:
    at = 0
    while at < len(line):
        end = unit_end(line, at) or at + 1
        yield line[at:end]
        at = end


def _aligned_piece(one: Sequence[Tokens], other: Sequence[Tokens]) -> _Aligned | None:
    """Align two sequences of units so that as many tokens as can be are equal, and no gap is empty on one side."""
    if len(one) * len(other) > MOST_COMPARED:
        return None
    best: dict[tuple[int, int], _Aligned] = {(len(one), len(other)): (0, ())}  # from where units are alike to the end

    def following(i: int, j: int) -> _Aligned | None:
        found = [best[i, j]] if (i, j) in best else []
        for (p, q), rest in best.items():
            if p > i and q > j and _can_be_held(one[i:p]) and _can_be_held(other[j:q]) and not _goes_on(rest[1]):
                found.append((rest[0] + HOLES, (_Gap(_flat(one[i:p]), _flat(other[j:q])), *rest[1])))
        return max(found, key=lambda each: each[0], default=None)

    for i, j in sorted(product(range(len(one)), range(len(other))), reverse=True):
        alike = _aligned_unit(one[i], other[j])
        rest = following(i + 1, j + 1) if alike else None
        if alike and rest:
            best[i, j] = alike[0] + rest[0], alike[1] + rest[1]
    return following(0, 0)


def _aligned_unit(one: Tokens, other: Tokens) -> _Aligned | None:
    if one == other:
        return BLANKS if one[0].isspace() else LITERAL * len(one), one
    if min(len(one), len(other)) < 2 or one[0] != other[0]:
        return None
    inside = _aligned(one[1:-1], other[1:-1])
    return (2 * LITERAL + inside[0], (one[0], *inside[1], one[-1])) if inside else None


def _can_be_held(units: Sequence[Tokens]) -> bool:
    """Return whether a hole may hold units: neither the first nor the last is blank."""
    return not units[0][0].isspace() and not units[-1][0].isspace()


def _goes_on(parts: Sequence[str | _Gap]) -> bool:
    """Return whether parts begin with the dot before a member that differs: its operand is one gap."""
    return len(parts) > 1 and parts[0] == "." and isinstance(parts[1], _Gap)


def _flat(units: Sequence[Tokens]) -> Tokens:
    return tuple(token for unit in units for token in unit)
