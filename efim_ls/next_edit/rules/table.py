"""The rules, and their sure proposals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from efim_ls.next_edit.pattern import Occurrence, outwards
from efim_ls.next_edit.rules.confidence import LEVELS, confidence
from efim_ls.next_edit.rules.imports import imports
from efim_ls.next_edit.rules.rename import rename
from efim_ls.next_edit.rules.repeat import repeat
from efim_ls.next_edit.rules.signature import Following, following_calls, signature
from efim_ls.next_edit.rules.transform import transform
from efim_ls.next_edit.situation import Candidate, EditRule, ProposedEdit, Situation
from efim_ls.next_edit.syntax.scope import Kind, is_prose, kind_of_name
from efim_ls.next_edit.tokens import difference, is_name, tokens
from efim_ls.text.document import Document

OF_CHANGES: Mapping[str, EditRule] = {
    "repeat": repeat,
    "rename": rename,
    "transform": transform,
    "signature": signature,
}
OF_NAMES: Mapping[str, EditRule] = {"import": imports}  # asked once the others had nothing to offer
RULES = {**OF_CHANGES, **OF_NAMES}
AGAIN = ("repeat", "transform")  # the last rule makes their offers at a call, too, and knows more of calls
OF_NAMED = ("repeat", "rename")  # their offers after a name was replaced depend on its meaning
LAST = "signature"  # its calls follow once the change fits nowhere else
MARGIN = 0.1  # of confidence: candidates that are less sure than the best by this count as sure as it
MOST_PARSED = 2  # candidates whose surroundings are parsed

_Sure = tuple[float, str, Candidate]


def proposals(situation: Situation) -> Iterator[ProposedEdit]:
    """Yield the edits that rules are sure enough of: of those that are about as sure as the best the nearest first.

    Calls come last, but nothing is repeated there, nor elsewhere once one of them has followed. Changes of
    code are not offered in a string or a comment, nor the other way round.
    """
    found = list[_Sure]()
    asked: Mapping[str, EditRule] = OF_NAMES if situation.importable else OF_CHANGES if situation.changes else {}
    for rule, propose in asked.items():
        found += _sure_enough(rule, propose(situation))
    found = _of_one_kind(situation, found)
    calls = [each for _, rule, each in found if rule == LAST]
    going_on, lines = any(each.features["followed"] for each in calls), {each.place.line for each in calls}
    found = [each for each in found if each[1] not in AGAIN or not (going_on or each[2].place.line in lines)]
    first, then = ([each for each in found if (each[1] == LAST) == last] for last in (False, True))
    found = [*_ranked(first, situation.cursor), *_ranked(then, situation.cursor)]
    document, last = situation.document, situation.changes[-1] if situation.changes else None
    prose = is_prose(document, last.start + sum(map(len, last.change.left))) if found and last else False
    for sure, rule, each in found[:MOST_PARSED]:
        if rule == LAST or is_prose(document, each.place.start) == prose:
            yield _proposed(situation.document, rule, sure, each)


def calls_proposed(
    document: Document, cursor: int, following: Following, done: Collection[int]
) -> Iterator[ProposedEdit]:
    """Yield the calls in a document that should follow a definition in another document, as `proposals` does."""
    found = _sure_enough(LAST, following_calls(document, cursor, following, done))
    for sure, rule, each in _ranked(list(found), cursor):
        yield _proposed(document, rule, sure, each)


def _sure_enough(rule: str, candidates: Iterable[Candidate]) -> Iterator[_Sure]:
    for each in candidates:
        sure = confidence(rule, each.features)
        if sure >= LEVELS[each.level or rule] and not each.place.around.unbalances:
            yield sure, rule, each


def _of_one_kind(situation: Situation, found: list[_Sure]) -> list[_Sure]:
    """Return the proposals without those that change what only has the name of a variable that was renamed.

    Nor is the variable changed if that was renamed. In a line with names of both kinds a place changes by itself.
    """
    document, changes = situation.document, situation.changes
    if not found or not changes or not all(len(each) == 1 and is_name(each[0]) for each in changes[-1].change.pair):
        return found
    left, right = changes[-1].change.left, changes[-1].change.right
    renamed = kind_of_name(document, changes[-1].start + sum(map(len, left)), *outwards(left, right)) != "other"
    kept = list[_Sure]()
    for sure, rule, each in found:
        if rule not in OF_NAMED:
            kept.append((sure, rule, each))
            continue
        kinds = _kinds(document, each.place)
        if kinds[len(each.place.around.left)] == ("variable" if renamed else "other"):
            alone = each.place._replace(is_alone=len(set(kinds.values())) > 1)
            kept.append((sure, rule, each._replace(place=alone)))
    return kept


def _kinds(document: Document, place: Occurrence) -> Mapping[int, Kind]:
    """Return what the name at a place stands for in its line, by the number of the token."""
    left, removed, _, right = place.around
    line, at, kinds = (*left, *removed, *right), place.start - sum(map(len, left)), dict[int, Kind]()
    for number, token in enumerate(line):
        if token == removed[0]:
            kinds[number] = kind_of_name(document, at, *outwards(line[:number], line[number + 1 :]))
        at += len(token)
    return kinds


def _ranked(found: Sequence[_Sure], cursor: int) -> Sequence[_Sure]:
    best = max((sure for sure, *_ in found), default=0.0)
    return sorted(found, key=lambda each: (each[0] < best - MARGIN, abs(each[2].place.start - cursor)))


def _proposed(document: Document, rule: str, sure: float, candidate: Candidate) -> ProposedEdit:
    """Return a candidate as an edit of whole tokens."""
    place = candidate.place
    start = place.start - sum(map(len, place.around.left))
    end = place.end + sum(map(len, place.around.right))
    change = difference(tokens(document.text[start:end]), tokens(place.rewritten))
    removed, added = "".join(change.removed), "".join(change.added)
    at = start + sum(map(len, change.left))
    end = at + len(removed)
    return ProposedEdit(document.uri, at, end, removed, added, rule, sure, candidate.because, candidate.pattern)
