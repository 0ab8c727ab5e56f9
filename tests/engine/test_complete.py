"""A completion from request to answer, on a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.answer import Answer, Request
from efim_ls.complete import REACH, Completer, fit_budget
from efim_ls.settings import Settings
from efim_ls.window import Budget
from model_runtime.config import read_config
from model_runtime.errors import ModelError
from model_runtime.load import load
from model_runtime.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, Scripted, Watched, decoder_of, never
from tests.models import CODE, Tiny, make

SETTINGS = Settings(max_new_tokens=12, head_tokens=200, tail_tokens=50)
BUDGET = Budget(head=200, tail=50)
PLACE = CODE.index("name, value = line")
LONG_LINES = {
    "letters": "a" * 10_000,
    "words": "ab " * 3334,
    "digits": "1" * 10_000,
    "brackets": "f(" * 5000,
    "blanks": " " * 10_000,
    "characters of several tokens": "日本" * 5000,
}


@pytest.fixture(scope="module")
def made(folder: Path) -> Callable[[], tuple[Completer, Watched]]:
    """Makes a completer that has seen nothing, and the engine in it."""
    decoder = decoder_of(folder)
    model = load(folder, weights="fp32", threads=1, capacity=500, local_cache=False, progress=lambda *_: None)

    def make_one() -> tuple[Completer, Watched]:
        engine = Watched(decoder, model.tokenizer, capacity=500, cache=CACHE)
        return Completer(replace(model, engine=engine, local_cache=CACHE), SETTINGS, BUDGET), engine

    return make_one


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Completer:
    return completer_of(folder)


def completer_of(folder: Path, **wanted: Any) -> Completer:
    return Completer.load(replace(Settings(model=str(folder), max_new_tokens=8), **wanted), lambda *_: None)


def ask(completer: Completer, text: str, cursor: int, uri: str = "file:///a.py") -> Answer:
    return completer.complete(Request(uri, text, cursor), never)


def explained(completer: Completer, text: str, cursor: int, uri: str = "file:///a.py") -> dict[str, Any]:
    return completer.explain(Request(uri, text, cursor))


def counts(costs: object) -> dict[str, object]:
    """What a prompt is made of and what of it is computed."""
    values = cast("dict[str, object]", costs if isinstance(costs, dict) else vars(costs))
    return {name: values[name] for name in ("frame", "head", "tail", "typed", "reused", "recomputed")}


# Answers


def test_a_loaded_completer_answers_and_tells_the_costs(loaded: Completer) -> None:
    answer = ask(loaded, CODE, PLACE)
    costs = answer.costs
    assert costs.frame == "new"
    assert costs.recomputed + costs.reused == 3 + costs.head + costs.tail + costs.typed
    assert 0 < costs.new_tokens <= 8
    assert costs.ms.total >= costs.ms.prefill > 0


def test_the_embedded_model_is_used_where_none_is_named() -> None:
    described = Completer.load(Settings(), lambda *_: None).describe()
    assert str(described["model"]).endswith("embedded")


def test_loading_reports_its_progress(folder: Path) -> None:
    reports: list[tuple[str, int]] = []
    Completer.load(Settings(model=str(folder)), lambda stage, percent: reports.append((stage, percent)))
    assert reports
    assert [percent for _, percent in reports] == sorted(percent for _, percent in reports)


def test_a_completer_describes_what_runs(folder: Path) -> None:
    described = completer_of(folder, weights="fp32").describe()
    assert described["model"] == str(folder)
    assert (described["weights"], described["device"], described["context"]) == ("fp32", "cpu", 512)
    assert all(described[reason] for reason in ("weights_reason", "attention_reason"))


def test_a_local_cache_is_used_where_the_folder_has_one_and_the_setting_allows_it(tmp_path: Path) -> None:
    folder = make(tmp_path)
    without = completer_of(folder).describe()
    CACHE.write(folder)
    model = load(folder, weights="fp32", threads=1, capacity=500, local_cache=True, progress=lambda *_: None)
    assert model.local_cache == CACHE
    found = [each.describe() for each in (completer_of(folder), completer_of(folder, local_cache=False))]
    assert [each["local_cache"] for each in (without, *found)] == [False, True, False]
    assert len({each["local_cache_reason"] for each in (without, *found)}) == 3


def test_an_empty_file_is_completed(loaded: Completer) -> None:
    answer = ask(loaded, "", 0, uri="file:///empty.py")
    assert (answer.costs.head, answer.costs.tail, answer.costs.typed, answer.costs.recomputed) == (0, 0, 0, 3)
    assert answer.reason in (None, "empty", "duplicate", "no fit")


@pytest.mark.parametrize("cursor", [0, 3, 9])
def test_binary_text_is_refused(made: Callable[[], tuple[Completer, Watched]], cursor: int) -> None:
    completer, engine = made()
    answer = ask(completer, "\x7fEL\0F\0\0\n1", cursor)
    assert (answer.text, answer.reason) == ("", "binary text")
    assert engine.log.passes == []
    assert explained(completer, "\x7fEL\0F\0\0\n1", cursor)["reason"] == "binary text"


def test_a_zero_byte_far_from_the_cursor_is_no_binary_text(loaded: Completer) -> None:
    text = CODE * 20 + "\0"
    assert ask(loaded, text, 300, uri="file:///far.py").reason != "binary text"


@pytest.mark.parametrize("at", [0, 255, 256, 5000, 9999, 10_000])
@pytest.mark.parametrize("kind", LONG_LINES)
def test_a_line_of_ten_thousand_characters_is_answered(loaded: Completer, kind: str, at: int) -> None:
    line = LONG_LINES[kind]
    cursor = min(at, len(line))
    for text, place in ((line, cursor), (f"x = 1\n{line}\ny = 2\n", cursor + 6)):
        answer = ask(loaded, text, place, uri=f"file:///{kind}.py")
        assert answer.reason in (None, "empty", "duplicate", "no fit")


def test_typing_on_in_a_long_line_reuses_what_was_computed(loaded: Completer) -> None:
    line, uri = "".join(LONG_LINES["words"]), "file:///typing.py"
    ask(loaded, line, 5000, uri)
    recomputed = [ask(loaded, line[:5000] + "q" * n + line[5000:], 5000 + n, uri).costs.recomputed for n in range(9)]
    assert max(recomputed) <= 2


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999, 1.0])
def test_a_file_of_two_million_characters_is_answered(loaded: Completer, place: float) -> None:
    text = (CODE + "\n") * (2_000_000 // len(CODE))
    answer = ask(loaded, text, int(place * len(text)), uri="file:///large.py")
    assert answer.reason in (None, "empty", "duplicate", "no fit")
    assert answer.costs.recomputed <= 512


def test_a_line_of_two_million_characters_is_answered(loaded: Completer) -> None:
    answer = ask(loaded, "ab = [1], " * 200_000, 1_500_000, uri="file:///line.py")
    assert answer.reason in (None, "empty", "duplicate", "no fit")


@pytest.mark.parametrize("text", ["x = '\ud83d", "x = '\ud83d'\ny", "\udc00"])
def test_half_a_surrogate_pair_is_completed(loaded: Completer, text: str) -> None:
    assert ask(loaded, text, len(text), uri="file:///half.py").reason in (None, "empty", "duplicate", "no fit")


def test_a_request_that_is_stopped_is_answered_as_superseded(
    made: Callable[[], tuple[Completer, Watched]],
) -> None:
    completer, engine = made()
    answer = completer.complete(Request("file:///a.py", CODE, PLACE), lambda: True)
    assert (answer.text, answer.reason, engine.log.passes) == ("", "superseded", [])


def test_what_the_filters_leave_nothing_of_is_told_to_be_a_duplicate(
    folder: Path, tokenizer: Tokenizer, made: Callable[[], tuple[Completer, Watched]]
) -> None:
    for script, reason in (("return 1\n", "duplicate"), ("\n", "empty"), ("return 2\n", None)):
        text, cursor = "def f():\n    \n    return 1\n", 13
        prompt_tokens = explained(made()[0], text, cursor)["costs"]
        size = 3 + prompt_tokens["head"] + prompt_tokens["tail"] + prompt_tokens["typed"]
        spelled = tokenizer.encode("    " + script).tolist()
        model = load(folder, weights="fp32", threads=1, capacity=500, local_cache=False, progress=lambda *_: None)
        engine = Watched(Scripted(read_config(folder), size, spelled), tokenizer)
        answer = ask(Completer(replace(model, engine=engine), SETTINGS, BUDGET), text, cursor)
        assert answer.reason == reason
        assert answer.text == ("return 2" if reason is None else "")


# What the local cache reads


def history_of(engine: Watched, tokenizer: Tokenizer) -> list[str]:
    """The texts between the breaks of the last prompt's history."""
    assert engine.log.prompt is not None
    history = engine.log.prompt.history
    parts = np.split(history, np.flatnonzero(history < 0))
    return [tokenizer.decode(part[part >= 0]) for part in parts]


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("line", ["", "    x = (\n", "    x = ()\n", "    foo(bar, baz)\n"])
def test_all_of_the_file_is_read_but_what_is_to_be_completed(
    made: Callable[[], tuple[Completer, Watched]], tokenizer: Tokenizer, place: float, line: str
) -> None:
    completer, engine = made()
    lines = (CODE * 3).splitlines(keepends=True)
    row = int(place * len(lines))
    before, after = "".join(lines[:row]) + line[: len(line) // 2], line[len(line) // 2 :] + "".join(lines[row:])
    ask(completer, before + after, len(before))
    rest, _, below = after.partition("\n")
    read_after, read_before = history_of(engine, tokenizer)
    assert engine.log.prompt is not None
    assert read_before + engine.log.prompt.stub.decode() == before
    assert read_after == (after if rest.strip(" )") else below)


def test_other_documents_are_read_the_one_used_last_nearest(
    made: Callable[[], tuple[Completer, Watched]], tokenizer: Tokenizer
) -> None:
    completer, engine = made()
    completer.complete(Request("file:///a.py", CODE, PLACE, others=("first = 1\n", "second = 2\n")), never)
    assert history_of(engine, tokenizer)[:2] == ["first = 1\n", "second = 2\n"]


def test_of_an_endless_file_only_so_much_is_read(
    made: Callable[[], tuple[Completer, Watched]], tokenizer: Tokenizer
) -> None:
    completer, engine = made()
    text = "x = 1\n" * (4 * REACH // 6)
    ask(completer, text, len(text) // 2)
    after, before = history_of(engine, tokenizer)
    assert REACH <= len(after) <= REACH + 2000
    assert REACH <= len(before) <= REACH + 2000


def test_without_a_local_cache_no_other_document_is_tokenized(loaded: Completer) -> None:
    tokenizer = loaded._model.tokenizer
    loaded.complete(Request("file:///a.py", CODE, PLACE, others=("unread = 1\n",)), never)
    misses = tokenizer.encode.cache_info().misses
    tokenizer.encode("unread = 1\n")
    assert tokenizer.encode.cache_info().misses == misses + 1


@pytest.mark.parametrize("questions", range(3))
def test_it_may_be_stopped_between_other_documents(
    made: Callable[[], tuple[Completer, Watched]], questions: int
) -> None:
    completer, engine = made()
    asked = iter(range(questions))
    others = ("a = 1\n", "b = 2\n", "c = 3\n")
    request = Request("file:///a.py", CODE, PLACE, others=others)
    answer = completer.complete(request, lambda: next(asked, None) is None)
    assert (answer.text, answer.reason, engine.log.prompt) == ("", "superseded", None)


# Explaining

moves = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([0, 1, 2]), st.floats(0, 1), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=40)
@given(moves=moves)
def test_an_explanation_is_what_the_next_completion_does_and_changes_nothing(
    made: Callable[[], tuple[Completer, Watched]], tokenizer: Tokenizer, moves: list[tuple[str, int, float, bool]]
) -> None:
    (explaining, engine), (other, _) = made(), made()
    for uri, size, place, complete in moves:
        text = CODE[: 600 * (size + 1)]
        cursor = int(place * len(text))
        told = explained(explaining, text, cursor, uri)
        assert told == explained(explaining, text, cursor, uri)
        if not complete:
            continue
        answer = ask(explaining, text, cursor, uri)
        assert answer.reason == told["reason"] or answer.reason in ("empty", "duplicate", "no fit")
        assert counts(told["costs"]) == counts(answer.costs)
        assert engine.log.prompt is not None
        assert told["prompt"] == tokenizer.decode(engine.log.prompt.ids)
        same = ask(other, text, cursor, uri)
        assert (same.text, counts(same.costs)) == (answer.text, counts(answer.costs))


def test_an_explanation_shows_the_window(made: Callable[[], tuple[Completer, Watched]]) -> None:
    told = explained(made()[0], "w = 1\nx = 1\ny = 1\na = 1\nb = \nc = 3\n", 28)
    typed = "x = 1\ny = 1\na = 1\nb = "
    assert (told["head"], told["typed"], told["rest"], told["tail"]) == ("w = 1\n", typed, "", "c = 3\n")
    assert told["prompt"] == f"<|fim_prefix|>w = 1\n<|fim_suffix|>c = 3\n<|fim_middle|>{typed.rstrip()}"


# Forgetting


def test_a_forgotten_document_starts_anew_with_the_same_answer(
    made: Callable[[], tuple[Completer, Watched]],
) -> None:
    completer, _ = made()
    first = ask(completer, CODE, PLACE)
    assert ask(completer, CODE, PLACE).costs.frame == "kept"
    completer.forget("file:///a.py")
    again = ask(completer, CODE, PLACE)
    assert again.costs.frame == "new"
    assert again.text == first.text


def test_a_forgotten_document_gives_its_arena_up_first(made: Callable[[], tuple[Completer, Watched]]) -> None:
    completer, _ = made()
    ask(completer, CODE, PLACE, uri="a")
    other = "import os\n" * 9
    ask(completer, other, 20, uri="b")
    completer.forget("b")
    ask(completer, "\n\n", 1, uri="c")
    assert ask(completer, CODE, PLACE, uri="a").costs.recomputed == 0


def test_forgetting_an_unknown_document_does_nothing(made: Callable[[], tuple[Completer, Watched]]) -> None:
    made()[0].forget("file:///never.py")


# Budgets


@settings(deadline=None)
@given(
    head=st.integers(1, 4000),
    tail=st.integers(1, 2000),
    new=st.integers(1, 400),
    context=st.integers(500, 8000),
)
def test_a_budget_fits_the_context_and_is_not_larger_than_wanted(
    folder: Path, head: int, tail: int, new: int, context: int
) -> None:
    wanted = Settings(head_tokens=head, tail_tokens=tail, max_new_tokens=new)
    budget = fit_budget(wanted, replace(read_config(folder), context=context))
    needed = 3 + budget.head + budget.tail + budget.typed + new
    assert needed <= context
    assert 0 <= budget.head <= head
    assert 0 <= budget.tail <= tail
    if 3 + head + tail + head // 4 + new <= context:
        assert budget == Budget(head, tail)
    else:
        assert needed > context * 0.97 - 5
        assert budget.head * tail == pytest.approx(budget.tail * head, abs=head + tail)


@pytest.mark.parametrize("context", [96, 128, 200])
def test_a_model_with_a_small_context_completes_within_it(tmp_path: Path, context: int) -> None:
    completer = completer_of(make(tmp_path, Tiny(context=context)))
    answers = [ask(completer, CODE, cursor) for cursor in range(0, len(CODE), 97)]
    assert all(answer.reason in (None, "empty", "duplicate", "no fit") for answer in answers)
    costs = [answer.costs for answer in answers]
    assert max(3 + each.head + each.tail + each.typed + each.new_tokens for each in costs) <= context
    assert max(each.head for each in costs) > context // 4
    assert max(each.tail for each in costs) > 0


@pytest.mark.parametrize(("context", "new"), [(64, 64), (60, 64), (512, 509), (512, 512), (512, 10_000)])
def test_a_limit_of_new_tokens_as_large_as_the_context_is_refused_or_leaves_room_for_a_prompt(
    tmp_path: Path, context: int, new: int
) -> None:
    folder = make(tmp_path, Tiny(context=context))
    try:
        completer = completer_of(folder, max_new_tokens=new)
    except ModelError as error:
        assert str(context) in str(error)
    else:
        assert ask(completer, "x = 1\n", 3).reason in (None, "empty", "duplicate", "no fit")
