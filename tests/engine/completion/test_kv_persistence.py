"""Keys and values outlive arenas, documents and servers, and are given back to the bit."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request, Upcoming
from model_runtime.cancel import NEVER, Cancel
from model_runtime.kv.pool import FrameId
from tests.engine.persistence import arena_of
from tests.models import CODE, Tiny, make
from tests.sized import ONE_PLACE, Sized
from tests.waiting import HANG

A, B = "file:///a.py", "file:///b.py"
CURSOR = CODE.index("name, value = line")
OTHER = "\n".join(f"total_{n} = {n} * factor" for n in range(60))

Start = Callable[..., Completer]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of whose arenas one takes all the memory that there may be."""
    return make(tmp_path_factory.mktemp("long"), Tiny("efim", context=2000))


@pytest.fixture
def start(long_folder: Path, cache: Path) -> Start:
    """Starts servers' models, as a user with these settings would."""

    def load(**wanted: object) -> Completer:
        settings = Sized(model=str(long_folder), head_tokens=1200, max_new_tokens=8, memory_mib=ONE_PLACE)
        return Completer.load(replace(settings, cache_folder=str(cache), **wanted), lambda *_: None)

    return load


def ask(completer: Completer, text: str = CODE, cursor: int = CURSOR, uri: str = A, explicit: bool = True) -> Answer:
    return completer.complete(Request(uri, text, cursor, explicit), NEVER)


def written(cache: Path) -> list[str]:
    """What is on disk, but for what tells nothing of documents."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and path.suffix in (".kv", ".note"))


def holds(cache: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in cache.rglob("*") if path.is_file())


def test_after_a_restart_only_what_no_block_holds_is_computed(start: Start) -> None:
    first = start()
    cold = ask(first)
    first.close(HANG)
    second = start()
    warm = ask(second)
    assert cold.costs.fetched == 0 and cold.costs.recomputed > 100
    assert warm.text == cold.text
    assert warm.costs.frame == "kept"
    assert warm.costs.fetched == warm.costs.reused and 0 < warm.costs.recomputed <= 16
    second.close(HANG)


def test_after_edits_and_a_restart_the_frames_are_those_of_before(start: Start) -> None:
    first, text = start(), CODE[:CURSOR]
    for key in "for x in y:":
        text += key
        ask(first, text + CODE[CURSOR:], len(text))
    before = ask(first, text + CODE[CURSOR:], len(text))
    first.close(HANG)
    second = start()
    after = ask(second, text + CODE[CURSOR:], len(text))
    assert (after.text, after.costs.typed, after.costs.frame) == (before.text, before.costs.typed, "kept")
    assert after.costs.recomputed <= 16
    second.close(HANG)


def test_what_is_fetched_is_what_was_computed(start: Start) -> None:
    first, second = start(), start()
    ask(first)
    ask(second)
    arena = arena_of(first, FrameId(A, 0))
    keys, values, ids = arena.k.copy(), arena.v.copy(), arena.ids.copy()
    first.close(HANG)
    third = start()
    ask(third)
    other = arena_of(third, FrameId(A, 0))
    n = min(other.length, len(ids))
    assert other.ids[:n].tolist() == ids[:n].tolist()
    whole = n // 16 * 16
    assert np.array_equal(other.k[:, :, :whole], keys[:, :, :whole])
    assert np.array_equal(other.v[:, :, :whole], values[:, :, :whole])


def test_a_file_whose_arena_was_taken_comes_back_from_memory(start: Start) -> None:
    completer = start(persist=False)
    assert completer.describe()["arenas"] == 1
    there = ask(completer)
    completer.save(A, NEVER)
    ask(completer, OTHER, 400, B)
    back = ask(completer)
    assert back.text == there.text
    assert back.costs.fetched > 0 and back.costs.recomputed <= 16


def test_places_at_rest_give_their_memory_back_and_come_back_from_storage(start: Start) -> None:
    completer = start(memory_mib=4 * ONE_PLACE, persist=False)
    there = ask(completer)
    completer.save(A, NEVER)
    ask(completer, OTHER, 400, B)
    resting, working = (arena_of(completer, FrameId(uri, 0)) for uri in (A, B))
    assert resting.k.any() and resting.length > 100
    completer.rest(3600)
    assert resting.length > 100, "somebody worked there in the last hour"
    completer.rest(0)
    assert not resting.length and not resting.k.any() and not resting.v.any()
    assert working.length > 100 and working.k.any(), "the last answer's place stays"
    back = ask(completer)
    assert back.text == there.text
    assert back.costs.fetched > 100 and back.costs.recomputed <= 16


def test_unsaved_tokens_are_recomputed(start: Start) -> None:
    completer = start(persist=False)
    there = ask(completer)
    ask(completer, OTHER, 400, B)
    completer.save(A, NEVER)
    back = ask(completer)
    assert (back.text, back.costs.fetched) == (there.text, 0)
    assert back.costs.recomputed >= there.costs.recomputed - 1  # prompts have the first token in common


def test_saving_resumes_where_it_was_interrupted(start: Start) -> None:
    completer = start(persist=False)
    ask(completer)
    kept: list[object] = [0]
    while not completer.save(A, Cancel(iter([False, True]).__next__)):
        kept.append(completer.tiers[0]["blocks"])
    assert kept == list(range(len(kept))) and len(kept) > 8


def test_a_closed_document_is_saved_and_then_released(start: Start) -> None:
    completer = start(persist=False)
    there = ask(completer)
    completer.close_document(A, save=True)
    assert completer._documents[A].unsaved
    assert completer.save(A, NEVER)
    assert not completer._documents[A].unsaved and completer.tiers[0]["blocks"]
    again = ask(completer)
    assert again.text == there.text and again.costs.frame == "kept"


def test_equal_beginnings_of_two_documents_are_one(start: Start) -> None:
    completer = start(persist=False)
    ask(completer)
    completer.save(A, NEVER)
    [before] = completer.tiers
    ask(completer, uri=B)
    completer.save(B, NEVER)
    assert completer.tiers == [before | {"read": completer.tiers[0]["read"]}]


def test_without_persist_nothing_is_written(start: Start, cache: Path) -> None:
    completer = start(persist=False)
    ask(completer)
    completer.save(A, NEVER)
    completer.close(HANG)
    assert not cache.exists()


@pytest.mark.parametrize("uri", ["file:///project/.env", "file:///home/me/.ssh/config", "untitled:Untitled-1"])
def test_what_may_be_secret_never_reaches_the_disk(start: Start, cache: Path, uri: str) -> None:
    completer = start()
    there = ask(completer, uri=uri)
    completer.save(uri, NEVER)
    completer.flush(HANG)
    [counts, disk] = completer.tiers
    assert counts["blocks"] and not disk["blocks"]
    completer.close(HANG)
    assert written(cache) == ["blocks.kv"] and not holds(cache, "name, value")
    again = ask(start(), uri=uri)
    assert (again.text, again.costs.fetched) == (there.text, 0)


def test_what_the_user_calls_private_does_not_either(start: Start, cache: Path) -> None:
    completer = start(private_files=("a.*",))
    ask(completer)
    ask(completer, OTHER, 400, B)
    completer.close(HANG)
    assert len(written(cache)) == 2  # the blocks and one note
    assert ask(start()).costs.fetched == 0
    assert ask(start(), OTHER, 400, B).costs.fetched > 0


def test_what_becomes_private_is_withdrawn(start: Start, cache: Path) -> None:
    first = start()
    ask(first)
    ask(first, OTHER, 400, B)
    first.close(HANG)
    assert len(written(cache)) == 3
    second = start(private_files=("a.*",))
    ask(second)
    second.close(HANG)
    assert len(written(cache)) == 2
    third = start()
    assert ask(third).costs.fetched == 0
    assert ask(third, OTHER, 400, B).costs.fetched > 0


def test_frames_of_another_budget_are_not_taken_up(start: Start) -> None:
    first = start()
    there = ask(first)
    first.close(HANG)
    other = start(head_tokens=100)
    assert ask(other).costs.frame == "new"
    other.close(HANG)
    assert ask(start()).text == there.text


def test_another_model_finds_nothing(start: Start, qwen_folder: Path) -> None:
    first = start()
    ask(first)
    first.close(HANG)
    other = start(model=str(qwen_folder))
    assert ask(other).costs.fetched == 0


def test_int8_says_how_much_is_approximate_and_raw_servers_never_see_it(start: Start) -> None:
    first = start(approximations=("int8_on_disk",))
    assert first.describe()["store_approximate"] is True
    cold = ask(first)
    first.close(HANG)
    second = start(approximations=("int8_on_disk",))
    warm = ask(second)
    assert cold.costs.approximate == 0 and warm.costs.fetched > 0
    assert 0 < warm.costs.approximate < warm.costs.fetched + warm.costs.recomputed  # the beginning is raw
    second.close(HANG)
    exact = ask(start())
    assert (exact.costs.fetched, exact.costs.approximate) == (0, 0)


def test_a_folder_that_cannot_be_used_is_named_once_and_completions_go_on(
    start: Start, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        completer = start()
        ask(completer)
        completer.save(A, NEVER)
        completer.close(HANG)
    assert completer.describe()["store"] == "memory only"
    assert ["repair its folder" in record.message for record in caplog.records] == [True]


def test_a_cache_that_vanishes_costs_latency_only(start: Start, cache: Path) -> None:
    completer = start(weights="fp32")  # which format is fastest is forgotten with the cache
    there = ask(completer)
    completer.save(A, NEVER)
    completer.flush(HANG)
    shutil.rmtree(cache)
    ask(completer, OTHER, 400, B)
    completer.save(B, NEVER)
    completer.flush(HANG)
    assert ask(completer).text == there.text
    completer.close(HANG)
    assert ask(start(weights="fp32"), OTHER, 400, B).costs.fetched > 0


def test_fetching_stops_with_its_request(start: Start) -> None:
    first = start()
    ask(first)
    first.close(HANG)
    second = start()
    questions = iter([False] * 3)
    answer = second.complete(Request(A, CODE, CURSOR, True), Cancel(lambda: next(questions, None) is None))
    arena = arena_of(second, FrameId(A, 0))
    assert answer.reason == "superseded"
    assert 0 < arena.length <= 4 * 16


def test_an_unaccepted_suggestion_is_not_saved(start: Start, cache: Path) -> None:
    """It may have come from another document, by the n-grams, and that may be one that must not be on disk."""
    first = start()
    request = Request(A, CODE[:CURSOR], CURSOR, True)
    first.complete(request, NEVER)
    first.prepare(Upcoming(replace(request, text=request.text + "secret = 'zq81'", cursor=CURSOR + 15)), NEVER)
    first.save(A, NEVER)
    first.close(HANG)
    second = start()
    typed = [plan.typed for plan in second.models.first._saved.recall(A)]
    assert len(typed) == 1 and request.text.endswith(typed[0])


@pytest.mark.parametrize("then", [{"persist": False}, {"private_files": ("*.py",)}])
def test_settings_that_forbid_it_keep_what_is_not_written_yet_from_the_disk(
    start: Start, cache: Path, then: dict[str, object]
) -> None:
    completer = start()
    ask(completer)
    completer.close(HANG, replace(completer._settings, **then))
    assert written(cache) == ["blocks.kv"] and start().tiers[1]["blocks"] == 0


def test_typing_through_an_approximation_says_so(start: Start) -> None:
    first = start(approximations=("int8_on_disk",))
    ask(first)
    first.close(HANG)
    second = start(approximations=("int8_on_disk",))
    there = ask(second)
    request, document = Request(A, CODE, CURSOR), second._opened(A)[1]
    document.suggestions.add(document.ask(request), "xyz")
    left = second.complete(request, NEVER)
    assert left.text == "xyz" and left.costs.approximate == there.costs.approximate > 0
    second.close(HANG)


def test_a_document_that_is_opened_again_finds_its_last_frame_fetched(start: Start) -> None:
    first = start()
    there = ask(first)
    first.close(HANG)
    second = start()
    assert second.prepare(Upcoming(Request(A, CODE, 0), "opened"), NEVER)
    assert second.ahead.tokens <= 16
    again = ask(second)
    assert (again.text, again.costs.frame, again.costs.fetched) == (there.text, "kept", 0)
    assert again.costs.recomputed <= 1
    second.close(HANG)


def test_of_all_frames_those_that_were_asked_for_reach_the_disk(start: Start) -> None:
    text, asked = CODE * 8, list[str]()
    first = start(head_tokens=100)
    for place in (text.index("records = []") + n * len(CODE) for n in (1, 3, 5)):
        answer = ask(first, text, place)
        assert answer.costs.frame == "new"
        asked.append(text[:place])
        first.prepare(Upcoming(Request(A, text[:place] + "zq81" + text[place:], place + 4)), NEVER)
        first.prepare(Upcoming(Request(A, text, place + len(CODE))), NEVER)
    first.save(A, NEVER)
    first.close(HANG)
    plans = start(head_tokens=100).models.first._saved.recall(A)
    assert len(plans) == len(asked)
    assert all(before.endswith(plan.head + plan.typed) for before, plan in zip(asked, plans, strict=True))
