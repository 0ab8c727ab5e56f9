"""The rule *transform*: a change that was made twice of tokens that differ is offered where its template matches."""

from __future__ import annotations

from collections.abc import Sequence

from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import Occurrence, outwards
from efim_ls.next_edit.situation import Candidate, Situation, in_comment, in_string, position
from efim_ls.next_edit.templates.template import EditTemplate, Rewritten, occurrences, template_of
from efim_ls.next_edit.tokens import TokenChange, common, is_word, tokens
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line

MOST_COMPARED = 3  # changes before the last one
MOST_COUNTED = 6  # words, or equal tokens on one side; more tell nothing


def transform(situation: Situation) -> Sequence[Candidate]:
    """Return the places of what the last change has in common with one before it, the nearest first."""
    document, cursor, changes, *_ = situation
    last = _rewritten(document, changes[-1])
    others = (
        each for each in reversed(changes[-MOST_COMPARED - 1 : -1]) if each.change.pair != changes[-1].change.pair
    )
    template = next(filter(None, (template_of(_rewritten(document, each), last) for each in others)), None)
    if template is None or not "".join(last.after).strip():
        return ()
    explained = [(each, template.explaining(_rewritten(document, each))) for each in changes]
    examples = [(each, change) for each, change in explained if change]
    done = {each.line for each in changes}
    found = [each for each in occurrences(template, document, cursor) if each.line not in done]
    because = tuple(edit for each, _ in examples for edit in each.because)
    words = min(sum(map(is_word, template.literals)), MOST_COUNTED)
    features: dict[str, float] = {"words": words, "dropped": template.dropped}
    alike = [change for _, change in examples]
    return [
        Candidate(
            each,
            features
            | position(each, found, examples[-2][0].line, examples[-1][0].line)
            | _of_place(each, template, alike, document.language),
            because,
            template.drawn,
        )
        for each in found
    ]


def _rewritten(document: Document, each: LineChange) -> Rewritten:
    start, end, _ = enclosing_line(document.text, each.start)
    return Rewritten((*each.change.left, *each.change.removed, *each.change.right), tokens(document.text[start:end]))


def _of_place(
    place: Occurrence, template: EditTemplate, alike: Sequence[TokenChange], language: str
) -> dict[str, float]:
    """Return how much a place is like the examples."""
    left = place.outwards[0]
    return {
        "left fits": place.left == len(template.left),
        "right fits": place.right == len(template.right),
        "like left": min(max(common(left, outwards(each.left, each.right)[0]) for each in alike), MOST_COUNTED),
        "as long": any(len(each.removed) == len(place.around.removed) for each in alike),
        "in string": in_string(place.around.left),
        "in comment": in_comment(place.around.left, language),
    }
