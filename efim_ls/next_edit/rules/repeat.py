"""The rule *repeat*: a change of tokens that was made twice is offered where the same tokens stand again."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from efim_ls.next_edit.pattern import Occurrence, Pattern, occurrences, outwards
from efim_ls.next_edit.situation import Candidate, Situation, in_comment, in_string, position
from efim_ls.next_edit.tokens import Tokens, common, is_name

MOST_COMPARED = 3  # examples, the last ones
MOST_COUNTED = 6  # equal tokens on one side; more tell nothing


def repeat(situation: Situation) -> Sequence[Candidate]:
    """Return the places where the last change could be made again, if it was made before, the nearest first."""
    document, cursor, changes, *_ = situation
    examples = [each for each in changes if each.change.pair == changes[-1].change.pair]
    if len(examples) < 2:
        return ()
    pattern = Pattern.of([each.change for each in examples])
    done = {each.line for each in changes}
    found = [each for each in occurrences(pattern, document, cursor) if each.line not in done]
    because = tuple(edit for each in examples for edit in each.because)
    features = _of_change(pattern)
    around = [outwards(each.change.left, each.change.right) for each in examples[-MOST_COMPARED:]]
    return [
        Candidate(
            each,
            features
            | position(each, found, examples[-2].line, examples[-1].line)
            | _of_place(each, pattern, around, document.language),
            because,
        )
        for each in found
    ]


def _of_change(pattern: Pattern) -> dict[str, float]:
    removed, added = "".join(pattern.removed), "".join(pattern.added)
    return {
        "name for name": all(len(side) == 1 and is_name(side[0]) for side in (pattern.removed, pattern.added)),
        "insertion": not removed.strip(),
        "deletion": not added.strip(),
        "length": log1p(len(removed)),
    }


def _of_place(
    place: Occurrence, pattern: Pattern, around: Sequence[tuple[Tokens, Tokens]], language: str
) -> dict[str, float]:
    """Return how similar its surroundings are to the pattern's, and to the most similar example's."""
    here = place.outwards
    return {
        "left fits": place.left == len(pattern.left),
        "right fits": place.right == len(pattern.right),
        "little fits": place.left + place.right <= 2,
        "like left": min(max(common(here[0], left) for left, _ in around), MOST_COUNTED),
        "like right": min(max(common(here[1], right) for _, right in around), MOST_COUNTED),
        "in string": in_string(place.around.left),
        "in comment": in_comment(place.around.left, language),
    }
