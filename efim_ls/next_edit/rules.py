"""The rules, and the surest of what they find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from efim_ls.next_edit.confidence import LEVELS, confidence
from efim_ls.next_edit.proposal import ProposedEdit
from efim_ls.next_edit.quiet import unbalances
from efim_ls.next_edit.rename import rename
from efim_ls.next_edit.repeat import repeat
from efim_ls.next_edit.scope import is_prose
from efim_ls.next_edit.situation import Candidate, EditRule, Situation
from efim_ls.next_edit.tokens import common, tokens

RULES: Mapping[str, EditRule] = {"repeat": repeat, "rename": rename}
STEPS = 20  # of confidence; of candidates within the same one, the nearest comes first
MOST_PARSED = 2  # candidates whose surroundings are parsed


def proposals(situation: Situation) -> Iterator[ProposedEdit]:
    """Yield the edits that rules are sure enough of, the surest first.

    What was changed in code is not offered in a string or a comment, nor the other way round.
    """
    found = list[tuple[float, str, Candidate]]()
    for rule, propose in RULES.items():
        for each in propose(situation):
            sure = confidence(rule, each.features)
            if sure >= LEVELS[rule] and not unbalances(each.place.around):
                found.append((sure, rule, each))
    found.sort(key=lambda each: round(each[0] * STEPS), reverse=True)
    document, last = situation.document, situation.changes[-1]
    prose = is_prose(document, last.start + sum(map(len, last.change.left))) if found else False
    for sure, rule, each in found[:MOST_PARSED]:
        if is_prose(document, each.place.start) == prose:
            yield _proposed(situation, rule, sure, each)


def _proposed(situation: Situation, rule: str, sure: float, candidate: Candidate) -> ProposedEdit:
    """Return a candidate as an edit of whole tokens."""
    place, document = candidate.place, situation.document
    start = place.start - sum(map(len, place.around.left))
    end = place.end + sum(map(len, place.around.right))
    before, after = tokens(document.text[start:end]), tokens(place.rewritten)
    left = common(before, after)
    right = min(common(before[::-1], after[::-1]), min(len(before), len(after)) - left)
    removed, added = "".join(before[left : len(before) - right]), "".join(after[left : len(after) - right])
    at = start + sum(map(len, before[:left]))
    return ProposedEdit(document.uri, at, at + len(removed), removed, added, rule, sure, candidate.because)
