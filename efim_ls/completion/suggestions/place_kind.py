"""Says at what kind of place a cursor is: how sure a suggestion has to be depends on it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from efim_ls.completion.filters.place import Place
from efim_ls.languages.table import LANGUAGES

PlaceKind = Literal[
    "start of line", "import", "new name", "attribute", "argument", "value", "number", "string", "docstring",
    "comment", "elsewhere",
]  # fmt: skip
KINDS: tuple[PlaceKind, ...] = get_args(PlaceKind)
PROSE: frozenset[PlaceKind] = frozenset({"string", "docstring", "comment"})
_TRIPLES = '"""', "'''"
_STUB = re.compile(r"\w*\Z")
_NUMBER = re.compile(r"(?<![\w.])\.?\d[\w.]*\Z")
_IMPORT = re.compile(r"\s*(?:from|import)\s")
_ASSIGNS = re.compile(r"[^=!<>]=\s*\Z")
_OPENS = re.compile(r"[(\[{,]\s*\Z")
_BLOCK = re.compile(r"^[ \t]*/\*", re.MULTILINE)
_PREFIX = re.compile(r"\s*[rRbBuUfF]{0,2}\Z")  # what may stand before the quotes of a docstring on its line
# A comment, quotes of a string of several lines, or a string, closed or not.
_WITH_TRIPLES = re.compile(r"""(#)|(\"{3}|'{3})|"(?:\\.|[^"\\])*("?)|'(?:\\.|[^'\\])*('?)""")
_WITHOUT = re.compile(r"""(//|/\*|\#(?=[\s!]))|(`)|"(?:\\.|[^"\\])*("?)|'(?:\\.|[^'\\])*('?)""")


class Spot(NamedTuple):
    """The kind of place where a cursor is, and the beginning of the word at it, empty without one.

    `refuted`: a guess at that word differs from the typed letters.
    """

    kind: PlaceKind
    stub: str
    refuted: bool = False


def spot_of(place: Place, refuted: bool = False) -> Spot:
    """Return where a cursor is; text in quotes or a comment comes before anything that stands in it."""
    found = _STUB.search(place.before)
    stub = found[0] if found else ""
    lead = place.before[: len(place.before) - len(stub)]
    return Spot(_quoted(place) or _code_kind(place, lead), stub, refuted)


def _code_kind(place: Place, lead: str) -> PlaceKind:
    if _NUMBER.search(place.before):
        return "number"
    if _IMPORT.match(place.before):
        return "import"
    if LANGUAGES[place.language].words.new_name.search(lead):
        return "new name"
    if lead.endswith((".", "->")):
        return "attribute"
    if not lead.strip():
        return "start of line"
    if _ASSIGNS.search(lead):
        return "value"
    return "argument" if _OPENS.search(lead) else "elsewhere"


def _quoted(place: Place) -> PlaceKind | None:
    """Return the kind of text in quotes or the comment that the cursor is in, None in code."""
    triple_quotes = LANGUAGES[place.language].triple_quotes
    inside = _open_triple(place.above) if triple_quotes else _open_comment(place.above)
    kind = None if inside is None else inside[1]
    quotes = inside[0] if inside else ""
    at = 0
    while True:
        if quotes:
            end = place.before.find(quotes, at)
            if end < 0:
                return kind
            at, quotes = end + len(quotes), ""
        part = (_WITH_TRIPLES if triple_quotes else _WITHOUT).search(place.before, at)
        if part is None:
            return None
        comment, multiline, *closed = part.groups()
        if comment:
            return "comment"
        if multiline:
            kind = "docstring" if triple_quotes and _PREFIX.match(place.before[: part.start()]) else "string"
            at, quotes = part.end(), multiline
        elif not any(closed):
            return "string"
        else:
            at = part.end()


def _open_comment(above: str) -> tuple[str, PlaceKind] | None:
    """Return what ends a comment of several lines that is open at the end of some text, and its kind.

    Only a comment that begins its line counts: patterns of file names have the same signs.
    """
    return ("*/", "comment") if _BLOCK.search(above, above.rfind("*/") + 1) else None


def _open_triple(above: str) -> tuple[str, PlaceKind] | None:
    """Return the quotes of a string of several lines that is open at the end of some text, and its kind.

    Quotes are counted, not parsed: that takes microseconds, and is wrong only where one kind stands in the other.
    """
    for quotes in _TRIPLES:
        if above.count(quotes) % 2:
            start = above.rfind(quotes)
            line = above[above.rfind("\n", 0, start) + 1 : start]
            return quotes, "docstring" if _PREFIX.match(line) else "string"
    return None
