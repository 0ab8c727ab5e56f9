"""The rule *repeat*: a change of tokens that was made twice is offered where the same tokens stand again."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import Pattern, Place, outwards, places
from efim_ls.next_edit.situation import Candidate, Situation
from efim_ls.next_edit.surroundings import in_comment, in_string
from efim_ls.next_edit.tokens import common, is_name

MOST_COMPARED = 3  # examples, the last ones
MOST_COUNTED = 6  # equal tokens on one side; more tell nothing


def repeat(situation: Situation) -> Sequence[Candidate]:
    """Return the places where the last change could be made again, if it was made before, the nearest first."""
    document, cursor, changes = situation
    examples = [each for each in changes if each.change.pair == changes[-1].change.pair]
    if len(examples) < 2:
        return ()
    pattern = Pattern.of([each.change for each in examples])
    done = {each.line for each in changes}
    found = [each for each in places(pattern, document, cursor) if each.line not in done]
    because = tuple(edit for each in examples for edit in each.because)
    language = document.language
    return [Candidate(each, _features(each, pattern, examples, found, language), because) for each in found]


def _features(
    place: Place, pattern: Pattern, examples: Sequence[LineChange], found: Sequence[Place], language: str
) -> dict[str, float]:
    """Return what tells whether a place will be changed as the examples were; logarithms of what is counted."""
    before, last = examples[-2].line, examples[-1].line
    direction = 1 if last >= before else -1
    alike = [each.line for each in found if each.left >= place.left and each.right >= place.right]
    here, there = place.outwards, [outwards(each.change.left, each.change.right) for each in examples[-MOST_COMPARED:]]
    removed, added = "".join(pattern.removed), "".join(pattern.added)
    return {
        "ahead": (place.line - last) * direction > 0,
        "within": (place.line - last) * direction < 0 < (place.line - before) * direction,
        "skipped": log1p(sum((line - last) * direction < 0 < (line - before) * direction for line in alike)),
        "behind": log1p(sum((line - before) * direction < 0 for line in alike)),
        "near": min(abs(place.line - last), abs(place.line - before)) <= 2,
        "more examples": len(examples) > 2,
        "name for name": all(len(side) == 1 and is_name(side[0]) for side in (pattern.removed, pattern.added)),
        "insertion": not removed.strip(),
        "deletion": not added.strip(),
        "length": log1p(len(removed)),
        "left fits": place.left == len(pattern.left),
        "right fits": place.right == len(pattern.right),
        "little fits": place.left + place.right <= 2,
        "like left": min(max(common(here[0], each) for each, _ in there), MOST_COUNTED),
        "like right": min(max(common(here[1], each) for _, each in there), MOST_COUNTED),
        "in string": in_string(place.around.left),
        "in comment": in_comment(place.around.left, language),
    }
