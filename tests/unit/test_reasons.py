"""Every reason is told in a sentence for people, with its figures."""

from __future__ import annotations

from typing import get_args

import pytest

from efim_ls.access.last_answers import LastAnswers
from efim_ls.access.reasons import SENTENCES, refusal
from efim_ls.request import Answer, Reason, Request

FIGURES = {"pattern": "*.sql", "language": "rust", "size": 5000, "most": 1024, "cause": "it is gone; choose another"}


@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_is_told_with_what_to_do(reason: Reason) -> None:
    why = refusal(reason, **FIGURES, confidence=0.12, least=0.5).why
    assert why and "{" not in why
    assert ":" in why or ";" in why, "a cause and a remedy"


def test_figures_are_told() -> None:
    assert "12%" in (why := refusal("low confidence", confidence=0.12, least=0.5).why) and "50%" in why
    assert "it is gone; choose another" in refusal("no model", **FIGURES).why
    assert set(SENTENCES) == set(get_args(Reason))


def test_a_last_answer_tells_of_its_very_place_only() -> None:
    last = LastAnswers()
    last.note(Request("a", "text", 4, least=0.5), Answer("", reason="low confidence", confidence=0.25))
    told = last.why_nothing("a", "text", 4)
    assert told is not None and told.reason == "low confidence" and "25%" in told.why and "50%" in told.why
    for elsewhere in (("a", "text", 3), ("a", "texts", 4), ("b", "text", 4)):
        assert last.why_nothing(*elsewhere) is None
    last.note(Request("a", "text", 4), Answer("s"))
    assert last.why_nothing("a", "text", 4) is None


def test_what_is_forgotten_is_not_told() -> None:
    last = LastAnswers()
    last.note(Request("a", "text", 4), Answer("", reason="empty"))
    last.forget("a")
    assert last.why_nothing("a", "text", 4) is None
