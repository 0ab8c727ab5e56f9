"""What a typical key takes: of answers that were needed until they came."""

from __future__ import annotations

from efim_ls.request import Answer, Costs, Milliseconds
from efim_ls.usage.counters import Counters


def answer(ms: float, superseded: bool = False) -> Answer:
    return Answer("", Costs(ms=Milliseconds(total=ms)), "superseded" if superseded else None)


def test_an_answer_that_was_given_up_tells_nothing_of_a_typical_key() -> None:
    counters = Counters()
    assert counters.typical_ms is None
    for ms, superseded in ((20.0, False), (1.0, True), (1.0, True), (30.0, False), (1.0, True)):
        counters.count_costs("a", "python", answer(ms, superseded))
    assert counters.typical_ms == 20.0
