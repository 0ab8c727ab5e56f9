"""Every reason is told in a sentence for people, with its figures."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.access.reasons import SENTENCES, refusal, why_empty
from efim_ls.request import Answer, Reason, Request
from efim_ls.session.documents import OpenDocument
from efim_ls.usage.counters import Counters

FIGURES = {"pattern": "*.sql", "language": "rust", "size": 5000, "most": 1024, "cause": "it is gone; choose another"}


@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_sentence_has_cause_and_remedy(reason: Reason) -> None:
    why = refusal(reason, **FIGURES, confidence=0.12, least=0.5).why
    assert why and "{" not in why
    assert ":" in why or ";" in why, "a cause and a remedy"


def test_sentences_contain_their_figures() -> None:
    unlikely = why_empty(Answer("", reason="low confidence", confidence=0.12, least=0.5))
    assert unlikely is not None and "12%" in unlikely.why and "50%" in unlikely.why
    assert "it is gone; choose another" in refusal("no model", **FIGURES).why
    assert set(SENTENCES) == set(get_args(Reason))


def test_the_last_answer_explains_its_place_only() -> None:
    document = OpenDocument(Counters(), "a", "python", "text")
    document.note_answer(Request("a", "text", 4), Answer("", reason="low confidence", confidence=0.25, least=0.5))
    off = document.why_nothing("text", 4)
    assert off is not None and off.reason == "low confidence" and "25%" in off.why and "50%" in off.why
    for elsewhere in (("text", 3), ("texts", 4)):
        assert document.why_nothing(*elsewhere) is None
    document.note_answer(Request("a", "text", 4), Answer("", reason="no answer", cause="it is down: start it"))
    off = document.why_nothing("text", 4)
    assert off is not None and off.why.endswith(": it is down: start it")
    document.note_answer(Request("a", "text", 4), Answer("s"))
    assert document.why_nothing("text", 4) is None


def test_the_last_answer_is_that_of_its_place_only() -> None:
    document, answer = OpenDocument(Counters(), "a", "python", "text"), Answer("s", hidden="t")
    assert document.last_answer("text", 4) is None
    document.note_answer(Request("a", "text", 4), answer)
    assert document.last_answer("text", 4) == answer
    for elsewhere in (("text", 3), ("texts", 4)):
        assert document.last_answer(*elsewhere) is None


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 1000).map(lambda share: share / 1000))
def test_what_is_too_unsure_is_less_than_what_is_needed_in_the_sentence_too(part: float, least: float) -> None:
    off = why_empty(Answer("", reason="low confidence", confidence=part * least, least=least))
    told = re.search(r"only (\d+)% confident .* below (\d+)%", off.why if off else "")
    assert told and int(told[1]) < int(told[2])
