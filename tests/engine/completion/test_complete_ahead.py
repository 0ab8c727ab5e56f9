"""Work ahead of need: what it saves the next completion, and that it can be interrupted at any chunk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from efim_ls.completion.planning.planner import Planner
from efim_ls.request import Ahead, Request, Upcoming
from model_runtime.cancel import NEVER, Cancel
from model_runtime.prompt.prompt import heal
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import PLACE, Make, ask, explained, maker
from tests.models import CODE

A, B = "file:///a.py", "file:///b.py"


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder, arenas=8)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of planners, by name."""
    calls: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        method = getattr(Planner, name)

        def call(*arguments: Any) -> Any:
            calls.append(name)
            return method(*arguments)

        return call

    for name in ("plan", "plan_next", "plan_unopened"):
        monkeypatch.setattr(Planner, name, noted(name))
    return calls


def after(questions: int) -> Cancel:
    """True from the question of this number on."""
    asked = iter(range(questions))
    return Cancel(lambda: next(asked, None) is None)


@pytest.mark.parametrize("cursor", range(0, len(CODE), 131))
def test_a_prefetched_completion_recomputes_no_prompt(made: Make, cursor: int) -> None:
    (completer, engine), (cold, _) = made(), made()
    assert completer.prepare(Upcoming(Request(A, CODE, cursor)), NEVER)
    assert sum(engine.log.passes) == completer.ahead.tokens
    answer, other = ask(completer, CODE, cursor, A), ask(cold, CODE, cursor, A)
    assert (answer.costs.frame, answer.costs.recomputed) == ("kept", 0)
    assert answer.text == other.text
    assert completer.ahead.wasted == 0


@pytest.mark.parametrize("cursor", range(0, len(CODE), 131))
@pytest.mark.parametrize("key", ["x", " ", "(", "\n"])
def test_a_key_at_a_foreseen_place_computes_itself_or_the_word_that_it_ends(
    made: Make, tokenizer: Tokenizer, cursor: int, key: str
) -> None:
    completer, _ = made()
    completer.prepare(Upcoming(Request(A, CODE, cursor)), NEVER)
    answer = ask(completer, CODE[:cursor] + key + CODE[cursor:], cursor + 1, A)
    _, word = heal(tokenizer, CODE[:cursor])
    assert answer.costs.frame == "kept"
    assert answer.costs.recomputed <= max(2, len(tokenizer.encode(word + key)))


@pytest.mark.parametrize("chunks", range(12))
def test_interrupted_work_plans_once_and_loses_nothing(made: Make, planned: list[str], chunks: int) -> None:
    completer, engine = made()
    tokens = 3 + sum(explained(completer, CODE, PLACE, A)["costs"][part] for part in ("head", "tail", "typed"))
    planned.clear()
    prepare = partial(completer.prepare, Upcoming(Request(A, CODE, PLACE)))
    assert planned == []
    computed = 0
    for questions in (chunks, 0, 1):
        done = prepare(after(questions))
        assert completer.ahead == Ahead(computed := computed + sum(engine.log.passes), 0)
        assert done == (computed == tokens)
        ask(completer, "y = 2\n" * 9, 20, B)
    assert prepare(NEVER)
    assert prepare(NEVER)
    assert planned.count("plan_next") == 1
    assert planned.count("plan") == 1 + 3
    assert completer.ahead == Ahead(tokens, 0)
    assert ask(completer, CODE, PLACE, A).costs.recomputed == 0


@pytest.mark.parametrize("chunks", range(4))
def test_what_was_computed_until_an_interruption_is_saved(made: Make, chunks: int) -> None:
    completer, _ = made()
    completer.prepare(Upcoming(Request(A, CODE, PLACE)), after(chunks))
    costs = ask(completer, CODE, PLACE, A).costs
    assert costs.reused == completer.ahead.tokens
    assert (costs.reused > 0) == (chunks > 0)


def test_work_that_goes_on_after_the_text_changed_is_for_the_text_that_was_there(made: Make) -> None:
    completer, _ = made()
    prepare = partial(completer.prepare, Upcoming(Request(A, CODE, PLACE)))
    prepare(after(1))
    ask(completer, "import os\n" + CODE[:PLACE] + CODE[PLACE + 9 :], PLACE + 10, A)
    assert prepare(NEVER)
    assert ask(completer, CODE, PLACE, A).costs.recomputed <= 1


def costs_of_typing(made: Make, *, ahead: bool) -> list[int]:
    """Tokens recomputed for each key of some lines that are typed, with work ahead after each answer or without."""
    completer, _ = made()
    at = CODE.index("def total")
    before, costs = CODE[:at], list[int]()
    for key in CODE[PLACE : PLACE + 250]:
        before += key
        costs.append(ask(completer, before + CODE[at:], len(before), A).costs.recomputed)
        if ahead:
            completer.prepare(Upcoming(Request(A, before + CODE[at:], len(before))), NEVER)
    return costs[1:]


def test_where_typed_is_nearly_outgrown_the_next_frame_is_made_ahead(made: Make) -> None:
    assert max(costs_of_typing(made, ahead=False)) > 50
    assert max(costs_of_typing(made, ahead=True)) <= 4


@pytest.mark.parametrize("cursor", range(0, 600, 37))
def test_a_first_completion_in_the_first_window_of_an_opened_document_computes_no_head(
    made: Make, cursor: int
) -> None:
    completer, engine = made()
    assert completer.prepare(Upcoming(Request(A, CODE, 0), "opened"), NEVER)
    assert sum(engine.log.passes) == completer.ahead.tokens > 0
    costs = ask(completer, CODE, cursor, A).costs
    lines_apart = 16  # tokens that are not worth a copy
    assert costs.recomputed <= costs.tail + costs.typed + 2 + lines_apart
    assert costs.reused >= costs.head - lines_apart


def test_a_document_that_was_opened_is_planned_when_the_work_begins(made: Make, planned: list[str]) -> None:
    completer, _ = made()
    prepare = partial(completer.prepare, Upcoming(Request(A, CODE, 0), "opened"))
    assert planned == []
    assert not prepare(after(1))
    assert prepare(NEVER)
    assert planned == ["plan_unopened"]


@pytest.mark.parametrize("text", ["\0" * 9, "x = 1\n\0\n"])
def test_binary_text_is_not_worked_on(made: Make, text: str) -> None:
    completer, _ = made()
    assert completer.prepare(Upcoming(Request(A, text, 3)), NEVER)
    assert completer.prepare(Upcoming(Request(A, text, 0), "opened"), NEVER)
    assert completer.ahead == Ahead(0, 0)


def test_unused_prefetching_counts_as_wasted(folder: Path) -> None:
    completer, _ = maker(folder, arenas=1)()
    completer.prepare(Upcoming(Request(A, CODE, PLACE)), NEVER)
    tokens = completer.ahead.tokens
    assert completer.ahead == Ahead(tokens, 0)
    ask(completer, "y = 2\n" * 9, 20, B)
    assert completer.ahead == Ahead(tokens, tokens - 1)  # both prompts begin with the same marker
