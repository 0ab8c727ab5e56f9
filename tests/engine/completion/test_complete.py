"""A completion from request to answer, on a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.completer import Completer
from efim_ls.completion.models.open import fit_budget
from efim_ls.completion.planning.planner import ANCHOR_STEP
from efim_ls.completion.planning.window import Budget
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.request import Answer, Preset, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import arena_bytes
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import MIB, LoadedModel, load
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, Scripted, Watched, quick_decoder_of
from tests.engine.persistence import completer_over, in_memory
from tests.models import CODE, Tiny, make
from tests.sized import Sized

SETTINGS = Sized(max_new_tokens=12, head_tokens=200, tail_tokens=50)
BUDGET = Budget(head=200, tail=50)
CAPACITY = 500
PLACE = CODE.index("name, value = line")
FITTING = (None, "empty", "duplicate", "no fit")  # reasons of an answer that went through the model
LONG_LINES = {
    "letters": "a" * 10_000,
    "words": "ab " * 3334,
    "digits": "1" * 10_000,
    "brackets": "f(" * 5000,
    "blanks": " " * 10_000,
    "characters of several tokens": "日本" * 5000,
}

Make = Callable[[], tuple[Completer, Watched]]


def loaded_from(folder: Path, *, ngrams: bool = False) -> LoadedModel:
    return load(
        read_checkpoint(folder),
        weights="fp32",
        threads=1,
        capacity=CAPACITY,
        kv_memory_mib=64,
        ngrams=ngrams,
        progress=lambda *_: None,
    )


def maker(folder: Path, arenas: int = 2, settings: Settings = SETTINGS, cache: Ngrams | None = CACHE) -> Make:
    """Makes completers that have seen nothing, and the engine in each."""
    decoder, model = quick_decoder_of(folder), loaded_from(folder)

    def make_one() -> tuple[Completer, Watched]:
        engine = Watched(decoder, model.tokenizer, CAPACITY, arenas, cache)
        made = replace(model, ngrams=cache)
        return completer_over(engine, made, settings, BUDGET, in_memory(model)), engine

    return make_one


def completer_of(folder: Path, **wanted: Any) -> Completer:
    return Completer.load(replace(Sized(model=str(folder), max_new_tokens=8), **wanted), lambda *_: None)


def ask(completer: Completer, text: str, cursor: int, uri: str = "file:///a.py", *, explicit: bool = False) -> Answer:
    return completer.complete(Request(uri, text, cursor, explicit), NEVER)


def explained(completer: Completer, text: str, cursor: int, uri: str = "file:///a.py") -> dict[str, Any]:
    return completer.explain(Request(uri, text, cursor))


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Completer:
    return completer_of(folder)


def test_a_request_stops_between_the_frames_that_it_compares(loaded: Completer) -> None:
    uri, below = "file:///stopped.py", "".join(f"value_{i:03} = {i}\n" for i in range(300))
    places = [(CODE + below, at) for at in (len(CODE), len(CODE) + 3000, len(CODE) + 1500)]
    for text, cursor in places:
        ask(loaded, text, cursor, uri)
    request = Request(uri, CODE + below, len(CODE) + 800)

    def frame_of(request: Request) -> object:
        told: Any = loaded.explain(request)
        return told["costs"]["frame"]

    answer = loaded.complete(request, Cancel(lambda: True))
    assert (answer.text, answer.reason, answer.costs.head, answer.costs.recomputed) == ("", "superseded", 0, 0)
    assert loaded.prepare(Upcoming(request), Cancel(lambda: True)) is False
    assert frame_of(request) == "new"  # it has made none
    assert loaded.prepare(Upcoming(request), NEVER) is True
    assert frame_of(request) != "new"


def test_a_loaded_completer_answers_and_tells_the_costs(loaded: Completer) -> None:
    answer = ask(loaded, CODE, PLACE)
    costs = answer.costs
    assert costs.frame == "new"
    assert costs.recomputed + costs.reused == 3 + costs.head + costs.tail + costs.typed
    assert 0 < costs.new_tokens <= 8
    assert costs.ms.total >= costs.ms.prefill > 0


def test_the_embedded_model_is_used_where_none_is_named() -> None:
    described = Completer.load(Settings(), lambda *_: None).describe()
    assert described["model"] == str(EMBEDDED)


def test_loading_reports_its_progress(folder: Path) -> None:
    reports: list[tuple[str, int]] = []
    Completer.load(Settings(model=str(folder)), lambda stage, percent: reports.append((stage, percent)))
    assert reports
    assert [percent for _, percent in reports] == sorted(percent for _, percent in reports)


def test_a_completer_describes_what_runs(folder: Path) -> None:
    described = completer_of(folder, weights="fp32").describe()
    assert described["model"] == str(folder)
    assert (described["weights"], described["device"], described["context"]) == ("fp32", "cpu", 512)
    assert all(described[reason] for reason in ("decoder_reason", "attention_reason"))


def test_the_memory_for_the_kv_cache_is_what_the_settings_allow(folder: Path) -> None:
    arenas = [completer_of(folder, memory_mib=mib).describe()["arenas"] for mib in (10, 11)]
    capacity = read_config(folder).context
    assert arenas == [mib * MIB // arena_bytes(read_config(folder), capacity) for mib in (1, 2)]


def test_n_grams_are_used_where_the_folder_has_one(tmp_path: Path) -> None:
    folder = make(tmp_path)
    without = completer_of(folder).describe()
    (folder / NGRAMS_FILE).write_text(CACHE.to_json())
    assert loaded_from(folder, ngrams=True).ngrams == CACHE
    found = completer_of(folder).describe()
    assert [each["ngrams"] for each in (without, found)] == [False, True]
    assert without["ngrams_reason"] != found["ngrams_reason"]


def test_an_empty_file_is_completed(loaded: Completer) -> None:
    answer = ask(loaded, "", 0, uri="file:///empty.py")
    assert (answer.costs.head, answer.costs.tail, answer.costs.typed, answer.costs.recomputed) == (0, 0, 0, 3)
    assert answer.reason in FITTING


@pytest.mark.parametrize("cursor", [0, 3, 9])
def test_binary_text_is_refused(made: Make, cursor: int) -> None:
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
        assert answer.reason in FITTING


def test_typing_on_in_a_long_line_reuses_what_was_computed(loaded: Completer) -> None:
    line, uri = "".join(LONG_LINES["words"]), "file:///typing.py"
    ask(loaded, line, 5000, uri)
    recomputed = [ask(loaded, line[:5000] + "q" * n + line[5000:], 5000 + n, uri).costs.recomputed for n in range(9)]
    assert max(recomputed) <= 2


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999, 1.0])
def test_a_file_of_two_million_characters_is_answered(loaded: Completer, place: float) -> None:
    text = (CODE + "\n") * (2_000_000 // len(CODE))
    answer = ask(loaded, text, int(place * len(text)), uri="file:///large.py")
    assert answer.reason in FITTING
    assert answer.costs.recomputed <= 512


def test_a_line_of_two_million_characters_is_answered(loaded: Completer) -> None:
    answer = ask(loaded, "ab = [1], " * 200_000, 1_500_000, uri="file:///line.py")
    assert answer.reason in FITTING


@pytest.mark.parametrize("text", ["x = '\ud83d", "x = '\ud83d'\ny", "\udc00"])
def test_half_a_surrogate_pair_is_completed(loaded: Completer, text: str) -> None:
    assert ask(loaded, text, len(text), uri="file:///half.py").reason in FITTING


def test_a_request_that_is_stopped_is_answered_as_superseded(made: Make) -> None:
    completer, engine = made()
    answer = completer.complete(Request("file:///a.py", CODE, PLACE), Cancel(lambda: True))
    assert (answer.text, answer.reason, engine.log.passes) == ("", "superseded", [])


def test_what_the_filters_leave_nothing_of_is_told_to_be_a_duplicate(
    folder: Path, tokenizer: Tokenizer, made: Make
) -> None:
    for script, reason in (("return 1\n", "duplicate"), ("\n", "empty"), ("return 2\n", None)):
        text, cursor = "def f():\n    \n    return 1\n", 13
        prompt_tokens = explained(made()[0], text, cursor)["costs"]
        size = 3 + prompt_tokens["head"] + prompt_tokens["tail"] + prompt_tokens["typed"]
        spelled = tokenizer.encode("    " + script).tolist()
        engine = Watched(Scripted(read_config(folder), size, spelled), tokenizer)
        model = loaded_from(folder)
        answer = ask(completer_over(engine, model, SETTINGS, BUDGET, in_memory(model)), text, cursor)
        assert answer.reason == reason
        assert answer.text == ("return 2" if reason is None else "")


class Overflowing(Scripted):
    """Scores of infinity, as weights too large make them: of which no probabilities can be computed."""

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        logits = super().forward(ids, arena, rows)
        return torch.where(logits > 0, torch.inf, logits)


@pytest.mark.parametrize("least", [0.0, 0.2])
@pytest.mark.parametrize(
    ("decoder", "expected"), [(Scripted, ("return 2", None)), (Overflowing, ("", "low confidence"))]
)
def test_a_confidence_that_is_no_number_is_below_any_limit(
    folder: Path, tokenizer: Tokenizer, made: Make, least: float, decoder: type[Scripted], expected: tuple[str, str]
) -> None:
    request = Request("file:///a.py", "def f():\n    \n", 13, least=least)
    costs = made()[0].explain(request)["costs"]
    assert isinstance(costs, dict)
    size = 3 + costs["head"] + costs["tail"] + costs["typed"]
    engine = Watched(decoder(read_config(folder), size, tokenizer.encode("    return 2\n").tolist()), tokenizer)
    model = loaded_from(folder)
    answer = completer_over(engine, model, SETTINGS, BUDGET, in_memory(model)).complete(request, NEVER)
    assert (answer.text, answer.reason) == expected
    assert answer.confidence is not None and isnan(answer.confidence) is (decoder is Overflowing)


@pytest.mark.parametrize("level", ["more", "balanced", "sure"])
def test_what_a_word_asks_for_is_told_with_each_answer(made: Make, level: Preset) -> None:
    completer, _ = made()
    text = "def area_of_ci"
    answer = completer.complete(Request("file:///a.py", text, len(text), least=level), NEVER)
    suggested = answer.text + answer.hidden
    typed = text + suggested[0]
    rest = completer.complete(Request("file:///a.py", typed, len(typed), least=level), NEVER)
    assert rest.text + rest.hidden == suggested[1:] and rest.costs.known, "of what is known as well"
    for told in (answer, rest):
        assert told.confidence is not None and (told.at_rest or told.least == LEVELS[level])
        assert bool(told.text) == (told.reason is None)
        assert told.least is not None and (told.confidence >= told.least or not told.text or told.at_rest)
        assert not (told.at_rest and level == "sure"), "who wants sure ones sees no others, at rest neither"


# Budgets


def test_a_line_of_characters_of_several_tokens_is_answered_between_full_parts(tmp_path: Path) -> None:
    """typed takes more than its budget there, since it begins at one of a few places of the line."""
    folder = make(tmp_path, Tiny(context=2000))
    wanted = Sized(model=str(folder), max_new_tokens=8, head_tokens=600, tail_tokens=100)
    completer, budget = Completer.load(wanted, lambda *_: None), fit_budget(wanted, read_config(folder))
    text, sizes = "日" * 500 + "\n" + "last_value = 2\n" * 40, list[int]()
    for cursor in range(200, 200 + ANCHOR_STEP):
        answer = ask(completer, text, cursor, f"file:///{cursor}.py")
        assert answer.reason in FITTING
        costs = answer.costs
        sizes.append(3 + costs.head + costs.tail + costs.typed)
    assert budget.prompt_tokens - budget.typed < max(sizes) <= budget.prompt_tokens


@given(
    head=st.integers(1, 4000),
    tail=st.integers(1, 2000),
    new=st.integers(1, 400),
    context=st.integers(500, 8000),
)
def test_a_budget_fits_the_context_and_is_not_larger_than_wanted(
    folder: Path, head: int, tail: int, new: int, context: int
) -> None:
    wanted = Sized(head_tokens=head, tail_tokens=tail, max_new_tokens=new)
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
    assert all(answer.reason in FITTING for answer in answers)
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
        assert ask(completer, "x = 1\n", 3).reason in FITTING
