"""The rule *rename*: a name that was replaced by another is offered to be replaced where it stands still."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from math import log1p

from efim_ls.next_edit.changes import LineChange, is_being_typed
from efim_ls.next_edit.pattern import Occurrence, Pattern, occurrences, outwards, whole_words
from efim_ls.next_edit.situation import Candidate, Situation, in_comment, in_string
from efim_ls.next_edit.syntax.scope import kind_of_name, local_scope
from efim_ls.next_edit.tokens import Tokens, is_name
from efim_ls.text.document import Document, narrowed

WORD_BORDER = re.compile(r"_|[a-z0-9][A-Z]|[A-Z][a-z]|\d")  # between two characters of a name
MOST_COUNTED = 4  # equal tokens on one side; more tell nothing
KEYWORDS = frozenset({
    "False", "None", "True", "and", "any", "as", "async", "await", "bool", "boolean", "break", "bytes", "case",
    "catch", "class", "const", "continue", "def", "default", "del", "elif", "else", "enum", "error", "except",
    "export", "extends", "false", "finally", "float", "fn", "for", "from", "func", "function", "global", "if",
    "impl", "import", "in", "int", "interface", "is", "lambda", "let", "map", "match", "mod", "mut", "new",
    "nil", "not", "null", "number", "object", "or", "package", "pass", "private", "public", "raise", "range",
    "readonly", "return", "self", "static", "str", "string", "struct", "super", "switch", "this", "throw",
    "trait", "true", "try", "type", "undefined", "unknown", "use", "var", "void", "where", "while", "with",
    "yield",
})  # fmt: skip
DEFINING = frozenset({
    "as", "class", "const", "def", "enum", "fn", "for", "func", "function", "import", "interface", "let", "mod",
    "mut", "static", "struct", "trait", "type", "var",
})  # fmt: skip


def rename(situation: Situation) -> Sequence[Candidate]:
    """Return where a name stands that the last change replaced by another, the nearest first."""
    document, cursor, changes, *_ = situation
    last = changes[-1]
    is_rename = all(len(side) == 1 and is_name(side[0]) for side in last.change.pair)
    if not is_rename or not _is_whole(*last.change.pair) or is_being_typed(last.because[-1], cursor):
        return ()
    pattern = Pattern.of([last.change])
    done = {each.line for each in changes if each.change.pair == last.change.pair}
    found = [each for each in occurrences(pattern, document, cursor) if each.line not in done]
    others = {each.change.added for each in changes if each.change.removed == last.change.removed}
    if not found or len(done) > 1 or len(others) > 1:  # a change made twice belongs to the rule repeat
        return ()
    at = last.start + sum(map(len, last.change.left))
    scope = local_scope(document, at, {last.change.removed[0], last.change.added[0]})
    inside = [each for each in found if scope and scope[0] <= each.start < scope[1]]
    found = inside or found
    features = _of_change(last, document.language) | {
        "local": bool(inside),
        "elsewhere": scope is not None and not inside,
        "places": log1p(len(found)),
        "above": log1p(sum(each.line < last.line for each in found)),
    }
    in_prose = features["was in string"] or features["was in comment"]
    level = "rename" if not in_prose and _is_new_name(document, at, last) else "doubtful rename"
    return [
        Candidate(each, features | _of_place(each, last, document.language), last.because, level=level)
        for each in found
    ]


def _is_new_name(document: Document, at: int, last: LineChange) -> bool:
    """Return whether the change put a name at an offset that occurs nowhere else in the document.

    A user who writes a known name there usually means that other thing, at this place alone.
    """
    left, right = outwards(last.change.left, last.change.right)
    names = re.findall(whole_words(last.change.added[0]), document.text)
    return len(names) == 1 and (left[0] == "." or kind_of_name(document, at, left, right) != "other")


def _is_whole(removed: Tokens, added: Tokens) -> bool:
    """Return whether a name that was cut, or extended in front, was where a word of it begins or ends."""
    short, long = sorted((removed[0], added[0]), key=len)
    more = narrowed(0, short, long)
    if more.removed or (long == added[0] and more.at == len(short)):
        return True
    ends = (long[: more.at], more.added, long[more.end :])
    return all(not one or not other or WORD_BORDER.search(one[-1] + other[0]) for one, other in pairwise(ends))


def _of_change(last: LineChange, language: str) -> dict[str, float]:
    (old,), (new,) = last.change.pair
    left, right = outwards(last.change.left, last.change.right)
    return {
        "keyword": old in KEYWORDS,
        "to keyword": new in KEYWORDS,
        "length": log1p(len(old)),
        "similar": SequenceMatcher(None, old.lower(), new.lower(), autojunk=False).ratio(),
        "case": old[0].isupper() == new[0].isupper(),
        "member": left[0] == ".",
        "called": right[0] == "(",
        "defined": defines(left, right),
        "imported": any(token in ("import", "from", "use") for token in last.change.left),
        "was in string": in_string(last.change.left),
        "was in comment": in_comment(last.change.left, language),
    }


def _of_place(place: Occurrence, last: LineChange, language: str) -> dict[str, float]:
    left, right = place.outwards
    return {
        "below": place.line > last.line,
        "distance": log1p(abs(place.line - last.line)),
        "left": min(place.left, MOST_COUNTED),
        "right": min(place.right, MOST_COUNTED),
        "defines": defines(left, right),
        "in string": in_string(place.around.left),
        "in comment": in_comment(place.around.left, language),
    }


def defines(left: Tokens, right: Tokens) -> bool:
    """Return whether the tokens around a name, from the nearest outwards, look as if it was defined there."""
    assigned = right[:1] == ("=",) != right[1:2] or right[:2] == (":", "=")
    return left[0] in DEFINING or (assigned and left[0] != ".")
