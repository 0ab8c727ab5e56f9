"""Measures offers in scenarios: whether they are the commit's own edits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from time import thread_time
from typing import Literal, NamedTuple

from efim_lab.gate.next_edit.played import play
from efim_lab.gate.next_edit.scenarios import EditScenario, Kind
from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line

Verdict = Literal["found", "wrong", "silent"]


class OfferRow(NamedTuple):
    """The offer in a scenario: right, wrong or none, by which rule, and how long it took."""

    kind: Kind
    language: str
    verdict: Verdict
    rule: str
    milliseconds: float


class Figures(NamedTuple):
    """Shares of scenarios after two edits or one: where something should be offered, and where nothing should.

    `precision` is the share of offers that were right; `precision_alone` leaves out scenarios where nothing should
    be.
    """

    positives: int
    found: float
    wrong: float
    negatives: int
    loud: float
    precision: float
    precision_alone: float


def measure(cases: Iterable[EditScenario]) -> list[OfferRow]:
    """Play scenarios, and ask for the next edit after each."""
    rows = list[OfferRow]()
    for case in cases:
        document, history, cursor = play(case.language, case.text, case.first)
        edits = NextEdits(history)
        began = thread_time()
        offered = edits.propose(document, cursor)
        took = 1000 * (thread_time() - began)
        verdict = "silent" if offered is None else "found" if is_right(document, offered, case) else "wrong"
        rows.append(OfferRow(case.kind, case.language, verdict, offered.rule if offered else "", took))
    return rows


def is_right(document: Document, edit: ProposedEdit, case: EditScenario) -> bool:
    """Return whether an edit makes a line what the commit made it."""
    start, end, _ = enclosing_line(document.text, edit.start)
    line = document.text[start : edit.start] + edit.added + document.text[edit.end : max(end, edit.end)]
    return case.then.get(document.line_of(edit.start)) == line


def by_rules(rows: Iterable[OfferRow], rules: Collection[str]) -> list[OfferRow]:
    """Return rows as if other rules had offered nothing."""
    return [row if row.rule in rules else row._replace(verdict="silent") for row in rows]


def figures(rows: Sequence[OfferRow], positive: Kind, negative: Kind) -> Figures:
    """Return the figures of two kinds of scenarios; a share of nothing is 0."""
    should = [row.verdict for row in rows if row.kind == positive]
    should_not = [row.verdict for row in rows if row.kind == negative]
    found, wrong = should.count("found"), should.count("wrong")
    loud = len(should_not) - should_not.count("silent")
    return Figures(
        len(should),
        _share(found, len(should)),
        _share(wrong, len(should)),
        len(should_not),
        _share(loud, len(should_not)),
        _share(found, found + wrong + loud),
        _share(found, found + wrong),
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 0.0
