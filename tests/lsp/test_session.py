"""What is counted, and what a log may hold, without a process."""

from __future__ import annotations

import logging
import sys

from efim_ls.answer import Answer, Costs, Milliseconds
from efim_ls.server import DiscreetFormatter
from efim_ls.session import REMEMBERED, Counters


def test_only_so_many_suggestions_are_remembered() -> None:
    counters = Counters()
    first = counters.offer()
    others = [counters.offer() for _ in range(REMEMBERED)]
    for number in (first, others[0], others[-1]):
        counters.tell(number, "accepted")
    assert counters.report()["accepted"] == 2


def test_times_are_those_of_answers_that_came_to_an_end() -> None:
    counters = Counters()
    for total in range(100, 0, -1):
        counters.spend("uri", Answer("x", Costs(ms=Milliseconds(total=total))))
    counters.spend("uri", Answer("", Costs(recomputed=9, ms=Milliseconds(total=1e6)), "superseded"))
    report = counters.report()
    assert report["ms"] == {"p50": 50, "p95": 95}
    assert report["tokens"] == {"recomputed": 9, "reused": 0}
    assert report["last_reason"] == "superseded"


def test_before_the_first_answer_nothing_was_last() -> None:
    report = Counters().report()
    assert report["last"] is report["last_uri"] is report["last_reason"] is None
    assert report["ms"] == {"p50": None, "p95": None}


def formatted(name: str, message: str, *args: object, error: bool = False) -> str:
    try:
        raise ValueError("".join(["sec", "ret"]))
    except ValueError:
        trace = sys.exc_info() if error else None
    record = logging.LogRecord(name, logging.ERROR, "", 0, message, args, trace)
    return DiscreetFormatter("%(message)s").format(record)


def test_a_log_has_methods_and_numbers_but_no_params() -> None:
    line = formatted("pygls", "Failed to handle request %s %s %s", 7, "textDocument/didOpen", {"text": "secret"})
    assert line == "Failed to handle request 7 textDocument/didOpen dict"


def test_a_log_has_an_exceptions_type_and_place_but_not_its_message() -> None:
    lines = formatted("pygls", "it failed", error=True)
    assert "test_session.py" in lines and lines.endswith("ValueError")
    assert "secret" not in lines


def test_a_log_has_nothing_that_asyncio_quotes() -> None:
    assert "secret" not in formatted("asyncio", "Future exception was never retrieved\nfuture: secret")
