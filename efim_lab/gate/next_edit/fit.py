"""Fits how sure the rules are: a logistic regression of whether the place that they propose was changed so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from efim_lab.gate.next_edit.histories import LineRewrite
from efim_lab.gate.next_edit.played import play
from efim_lab.gate.next_edit.scenarios import EditScenario, Kind
from efim_ls.next_edit.changes import line_changes
from efim_ls.next_edit.rules.table import RULES
from efim_ls.next_edit.situation import Situation

RIDGE, STEPS = 2.0, 30
ELSEWHERE = 0.25  # weight of a scenario in which the user did not begin at the top

Vector = NDArray[np.float64]


class Example(NamedTuple):
    """The candidates of a rule in a scenario, whether each is right, and how much the scenario counts."""

    features: Sequence[Mapping[str, float]]
    right: Sequence[bool]
    weight: float


class _Begun(NamedTuple):
    """Lines that are rewritten first, the right texts of other lines, and the weight of these."""

    first: Sequence[LineRewrite]
    then: Mapping[int, str]
    weight: float


def fit(rule: str, cases: Iterable[EditScenario]) -> dict[str, float]:
    """Return the weights of a rule's features, and of `bias`, from scenarios of its kinds."""
    return weights([each for case in cases for each in examples(rule, case)])


def examples(rule: str, case: EditScenario) -> Iterator[Example]:
    """Yield the edits that a rule finds in a scenario, for several first edits."""
    propose = RULES[rule]
    for way in FITTED[rule](case):
        document, history, cursor = play(case.language, case.text, way.first)
        changes = line_changes(document, history.recent())
        found = propose(Situation(document, cursor, changes, history.recent())) if changes else ()
        found = [each for each in found if not each.place.around.unbalances]
        if found:
            right = [way.then.get(each.place.line) == each.place.rewritten for each in found]
            yield Example([each.features for each in found], right, way.weight)


def weights(found: Sequence[Example]) -> dict[str, float]:
    """Fit a logistic regression by Newton's method; the candidates of an example share its weight."""
    names = list(found[0].features[0])
    rows = np.array([[row[name] for name in names] for each in found for row in each.features], np.float64)
    right = np.array([right for each in found for right in each.right], np.float64)
    shares = np.concatenate([np.full(len(each.right), each.weight / len(each.right) ** 0.5) for each in found])
    mean, spread = rows.mean(0), rows.std(0) + 1e-6
    scaled = np.concatenate(((rows - mean) / spread, np.ones((len(rows), 1))), axis=1)
    fitted, ridge = np.zeros(len(names) + 1), RIDGE * np.eye(len(names) + 1)
    ridge[-1, -1] = 0
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-scaled @ fitted))
        slope = scaled.T @ (shares * (chance - right)) + ridge @ fitted
        fitted -= np.linalg.solve((scaled.T * (shares * chance * (1 - chance))) @ scaled + ridge, slope)
    plain = fitted[:-1] / spread
    return {"bias": float(fitted[-1] - plain @ mean)} | dict(zip(names, map(float, plain), strict=True))


def _begun_twice(positive: Kind, negative: Kind, case: EditScenario) -> Iterator[_Begun]:
    if case.kind not in (positive, negative):
        return
    yield _Begun(case.first, case.then, 1.0)
    if case.kind == negative:
        return
    before = dict(enumerate(case.text.split("\n")))
    rest = [LineRewrite(line, before[line], after) for line, after in sorted(case.then.items())]
    yield _Begun((*case.first, rest[0]), {each.line: each.after for each in rest[1:]}, ELSEWHERE)
    other = {each.line: each.after for each in (case.first[0], *rest[1:])}
    yield _Begun((case.first[1], rest[0]), other, ELSEWHERE)


def _renamed(case: EditScenario) -> Iterator[_Begun]:
    if case.kind not in ("rename", "one"):
        return
    yield _Begun(case.first, case.then, 1.0)
    if case.kind == "rename":
        before = case.text.split("\n")
        line = min(case.then)
        other = {each.line: each.after for each in case.first} | {k: v for k, v in case.then.items() if k != line}
        yield _Begun((LineRewrite(line, before[line], case.then[line]),), other, ELSEWHERE)


def _signed(case: EditScenario) -> Iterator[_Begun]:
    if case.kind not in ("signature", "definition"):
        return
    yield _Begun(case.first, case.then, 1.0)
    before = case.text.split("\n")
    if len(case.then) > 1:
        line, *rest = case.then
        done = LineRewrite(line, before[line], case.then[line])
        yield _Begun((*case.first, done), {each: case.then[each] for each in rest}, ELSEWHERE)


FITTED: dict[str, Callable[[EditScenario], Iterator[_Begun]]] = {
    "repeat": partial(_begun_twice, "three", "two"),
    "rename": _renamed,
    "transform": partial(_begun_twice, "transform", "pair"),
    "signature": _signed,
}
