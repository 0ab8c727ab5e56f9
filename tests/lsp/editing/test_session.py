"""What is counted, what a log may hold and what a completion reads of other documents, without a process."""

from __future__ import annotations

import logging
import sys

import pytest

from efim_ls.request import Answer, Costs, Milliseconds, Request
from efim_ls.session.documents import MOST_CHARACTERS_OF_OTHERS, MOST_OTHERS, OpenDocument
from efim_ls.session.prefetch import accepted
from efim_ls.session.server_process import DiscreetFormatter
from efim_ls.session.session import Session
from efim_ls.settings import MOST_CHARACTERS
from efim_ls.usage.counters import Counters


def test_times_are_those_of_answers_that_came_to_an_end() -> None:
    counters = Counters()
    for total in range(100, 0, -1):
        counters.count_costs("uri", "python", Answer("x", Costs(ms=Milliseconds(total=total))))
    counters.count_costs("uri", "python", Answer("", Costs(recomputed=9, ms=Milliseconds(total=1e6)), "superseded"))
    report = counters.report()
    assert report["ms"] == {"p50": 50, "p95": 95}
    assert report["tokens"] == {"recomputed": 9, "reused": 0}
    assert report["last_reason"] == "superseded"


def test_counters_keep_nothing_of_an_answers_text() -> None:
    counters = Counters()
    words = (("shown", 0.5), ("hidden", 0.1))
    counters.count_costs("uri", "python", Answer("shown", alternatives=("second",), hidden="hidden", words=words))
    kept = repr(vars(counters))
    assert "uri" in kept and not [text for text in ("shown'", "second'", "hidden'") if text in kept]


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


def session_of(*texts: str, language: str = "python") -> Session:
    """A session in which these texts are open, named by their numbers, the first the longest ago."""
    session = Session(lambda settings, progress: pytest.fail("nothing is loaded"))
    for number, text in enumerate(texts):
        session.documents.add(OpenDocument(session.counters, str(number), language, text))
    return session


def others_of(session: Session, uri: str) -> list[str]:
    document = session.documents.use(uri)
    assert document is not None
    return [each.text for each in session.documents.others(document, document.language)]


def test_other_documents_come_in_the_order_of_their_last_use() -> None:
    session = session_of("a", "b", "c", "d")
    assert others_of(session, "3") == ["a", "b", "c"]
    assert others_of(session, "1") == ["a", "c", "d"]
    session.documents.use("0")
    assert others_of(session, "2") == ["d", "b", "a"]


def test_a_document_of_another_language_is_not_read() -> None:
    session = session_of("a", "b")
    session.documents.add(OpenDocument(session.counters, "x", "rust", "fn"))
    assert others_of(session, "1") == ["a"]
    assert others_of(session, "x") == []


def test_a_document_too_large_to_be_completed_is_not_read() -> None:
    session = session_of("x" * (MOST_CHARACTERS + 1), "y" * 1024, "c")
    assert others_of(session, "2") == ["y" * 1024]


def test_of_many_documents_those_used_last_are_read_and_whole() -> None:
    half = MOST_CHARACTERS_OF_OTHERS // 2
    session = session_of("a", "x" * half, "y" * half, "b", "now")
    assert others_of(session, "4") == ["a", "y" * half, "b"]
    session = session_of(*map(str, range(MOST_OTHERS + 9)))
    assert others_of(session, "0") == [str(number) for number in range(9, MOST_OTHERS + 9)]


def test_texts_of_other_documents_are_not_copied() -> None:
    session = session_of("text of the other document", "b")
    (text,) = others_of(session, "1")
    other = session.documents.get("0")
    assert other is not None and text is other.text


def test_an_accepted_suggestion_stands_before_the_cursor() -> None:
    made = accepted(Request("uri", "a\nb", 2), "x\ny")
    assert (made.text, made.cursor) == ("a\nx\nyb", 5)
