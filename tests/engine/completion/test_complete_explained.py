"""What a completion would do, told without doing it; and documents that are forgotten."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from efim_ls.request import Request
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import PLACE, Make, ask, explained, maker
from tests.engine.doubles import never
from tests.models import CODE


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder)


def counts(costs: dict[str, Any]) -> dict[str, object]:
    """What a prompt is made of and what of it is computed."""
    return {name: costs[name] for name in ("frame", "head", "tail", "typed", "reused", "recomputed")}


# Explaining

moves = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from([0, 1, 2]),
        st.floats(0, 1),
        st.sampled_from(["complete", "complete", "foresee", "open", "only explain"]),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(moves=moves)
# A frame whose arena served another one meanwhile.
@example(
    moves=[
        ("a", 2, 1.0, "complete"),
        ("a", 0, 0.0, "complete"),
        ("a", 0, 1.0, "foresee"),
        ("a", 0, 0.0, "complete"),
        ("a", 2, 1.0, "complete"),
    ]
)
def test_an_explanation_is_what_the_next_completion_does_and_changes_nothing(
    made: Make, tokenizer: Tokenizer, moves: list[tuple[str, int, float, str]]
) -> None:
    (explaining, engine), (other, _) = made(), made()
    for uri, size, place, action in moves:
        text = CODE[: 600 * (size + 1)]
        cursor = int(place * len(text))
        told = explained(explaining, text, cursor, uri)
        assert told == explained(explaining, text, cursor, uri)
        if action == "complete":
            # By a key: what is left of an earlier suggestion would be answered without the model.
            answer, same = (ask(each, text, cursor, uri, explicit=True) for each in (explaining, other))
            assert answer.reason == told["reason"] or answer.reason in ("empty", "duplicate", "no fit")
            assert counts(told["costs"]) == counts(asdict(answer.costs))
            assert engine.log.prompt is not None
            assert told["prompt"] == tokenizer.decode(engine.log.prompt.ids)
            assert (same.text, counts(asdict(same.costs))) == (answer.text, counts(asdict(answer.costs)))
        elif action != "only explain":
            request = Request(uri, text, cursor)
            for each in (explaining, other):
                prepare = each.prefetch(request) if action == "foresee" else each.prefetch_opened(uri, text)
                assert prepare(never)
        assert explaining.ahead == other.ahead


def test_an_explanation_shows_the_window(made: Make) -> None:
    told = explained(made()[0], "w = 1\nx = 1\ny = 1\na = 1\nb = \nc = 3\n", 28)
    typed = "x = 1\ny = 1\na = 1\nb = "
    assert (told["head"], told["typed"], told["rest"], told["tail"]) == ("w = 1\n", typed, "", "c = 3\n")
    assert told["prompt"] == f"<|fim_prefix|>w = 1\n<|fim_suffix|>c = 3\n<|fim_middle|>{typed.rstrip()}"


# Forgetting


def test_a_forgotten_document_that_comes_back_has_its_frames(made: Make) -> None:
    completer, _ = made()
    first = ask(completer, CODE, PLACE)
    assert ask(completer, CODE, PLACE).costs.frame == "kept"
    completer.close_document("file:///a.py", save=True)
    again = ask(completer, CODE, PLACE)
    assert (again.text, again.costs.frame, again.costs.recomputed) == (first.text, "kept", 0)


def test_a_forgotten_document_gives_its_arena_up_first(made: Make) -> None:
    completer, _ = made()
    ask(completer, CODE, PLACE, uri="a")
    other = "import os\n" * 9
    ask(completer, other, 20, uri="b")
    completer.close_document("b", save=True)
    ask(completer, "\n\n", 1, uri="c")
    assert ask(completer, CODE, PLACE, uri="a").costs.recomputed == 0


def test_forgetting_an_unknown_document_does_nothing(made: Make) -> None:
    completer, _ = made()
    there = ask(completer, CODE, PLACE, uri="a")
    completer.close_document("file:///never.py", save=True)
    again = ask(completer, CODE, PLACE, uri="a")
    assert (again.text, again.costs.frame, again.costs.recomputed) == (there.text, "kept", 0)
