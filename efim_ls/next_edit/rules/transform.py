"""The rule *transform*: a change that was made twice of tokens that differ is offered where its template matches."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.pattern import outwards
from efim_ls.next_edit.situation import Candidate, Situation
from efim_ls.next_edit.surroundings import likeness, position
from efim_ls.next_edit.templates.generalize import Hole
from efim_ls.next_edit.templates.template import Rewritten, Template, occurrences, template_of
from efim_ls.next_edit.tokens import is_word, tokens
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line

MOST_COMPARED = 3  # changes before the last one
MOST_COUNTED = 6  # tokens; more tell nothing


def transform(situation: Situation) -> Sequence[Candidate]:
    """Return the places of what the last change has in common with one before it, the nearest first."""
    document, cursor, changes = situation
    last = _rewritten(document, changes[-1])
    others = (each for each in reversed(changes[-MOST_COMPARED - 1 : -1]) if each.change.pair != changes[-1].change.pair)
    template = next(filter(None, (template_of(_rewritten(document, each), last) for each in others)), None)
    if template is None:
        return ()
    explained = [(each, template.explaining(_rewritten(document, each))) for each in changes]
    examples = [(each, change) for each, change in explained if change]
    done = {each.line for each in changes}
    found = [each for each in occurrences(template, document, cursor) if each.line not in done]
    because = tuple(edit for each, _ in examples for edit in each.because)
    features = _of_template(template)
    sides = template.left, template.right
    around = [outwards(change.left, change.right) for _, change in examples[-MOST_COMPARED:]]
    lines = [(each.line, each.left, each.right) for each in found]
    return [
        Candidate(
            each,
            features
            | position(each, lines, examples[-2][0].line, examples[-1][0].line)
            | likeness(each, sides, around, document.language),
            because,
            template.drawn,
        )
        for each in found
    ]


def _rewritten(document: Document, each: LineChange) -> Rewritten:
    start, end, _ = enclosing_line(document.text, each.start)
    return Rewritten((*each.change.left, *each.change.removed, *each.change.right), tokens(document.text[start:end]))


def _of_template(template: Template) -> dict[str, float]:
    words = sum(map(is_word, template.literals))
    added = sum(isinstance(part, str) and is_word(part) for part in template.added)
    return {
        "literals": log1p(len(template.literals)),
        "words": min(words, MOST_COUNTED),
        "added words": min(added, MOST_COUNTED),
        "holes": template.holes,
        "dropped": template.dropped,
        "lists": any(isinstance(part, Hole) and part.lists for part in template.removed),
    }
