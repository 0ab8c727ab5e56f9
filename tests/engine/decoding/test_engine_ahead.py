"""Work ahead of need: it saves what it computed, can be stopped at any chunk, and changes no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.decoder.any_decoder import CHUNK, AnyDecoder
from model_runtime.engine.drafts import PassCosts
from model_runtime.engine.engine import GenerateJob, PrepareJob
from model_runtime.engine.local import LocalEngine
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.prompt import Prompt, PromptPart
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ONE_LINE, Watched
from tests.engine.prompts import (
    A,
    B,
    Eager,
    after,
    assert_same_tokens,
    canonical,
    generate,
    paced,
    prompt_of,
    scripted,
)
from tests.models import CODE

OTHER = "y = 2\n"


def other_of(tokenizer: Tokenizer) -> Prompt:
    """A prompt that has nothing but its first marker in common with the usual one."""
    return prompt_of(tokenizer, OTHER, "# another head\n" + CODE[:100], "")


@pytest.mark.parametrize("pace", [PassCosts, Eager])
@pytest.mark.parametrize("chunks", range(9))
def test_what_was_computed_ahead_until_it_was_stopped_is_saved_and_the_answer_the_same(
    decoder: AnyDecoder, tokenizer: Tokenizer, chunks: int, pace: Callable[[], PassCosts]
) -> None:
    prompt = prompt_of(tokenizer, "def wri")
    engine, cold = paced(Watched(decoder, tokenizer), pace()), Watched(decoder, tokenizer)
    whole = engine.prepare(PrepareJob(A, prompt), after(chunks))
    assert whole == (engine.prefetched == len(prompt.ids))
    assert sum(engine.log.passes) == engine.prefetched
    assert engine.reusable(A, prompt).reused == engine.prefetched
    made = generate(engine, prompt)
    assert made.stats.recomputed == len(prompt.ids) - engine.prefetched
    assert engine.wasted == 0
    generate(cold, prompt)
    assert_same_tokens(engine.log, cold.log)


def test_a_prompt_that_was_prepared_costs_no_pass_before_its_first_token(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def wri")
    assert engine.prepare(PrepareJob(A, prompt), NEVER)
    made = generate(engine, prompt, limit=1)
    assert (made.stats.recomputed, engine.log.passes) == (0, [])


def test_pieces_add_up(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Eager()), prompt_of(tokenizer, "def wri")
    told, computed = list[bool](), [0]
    while not (told and told[-1]):
        told.append(engine.prepare(PrepareJob(A, prompt), after(1)))
        computed.append(engine.prefetched)
    assert told == [False] * (len(told) - 1) + [True]
    assert computed[-1] == len(prompt.ids)
    assert all(before < now <= before + CHUNK for before, now in pairwise(computed))


def test_it_asks_before_every_chunk_and_no_chunk_is_longer_than_a_request_can_wait(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    for pace in (PassCosts(), Eager()):
        engine = paced(Watched(decoder, tokenizer), pace)
        engine.prepare(PrepareJob(A, prompt_of(tokenizer, "def wri")), NEVER)
        events = engine.log.events
        assert max(engine.log.passes) <= CHUNK
        assert all(events[n - 1] == "asked" for n, event in enumerate(events) if event != "asked")


def test_nothing_is_computed_ahead_that_is_there(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def wri")
    generate(engine, prompt)
    assert engine.prepare(PrepareJob(A, prompt), Cancel(lambda: True))
    assert (engine.log.passes, engine.prefetched) == ([], 0)


@pytest.mark.parametrize("typed", ["def ", "def write(path, rec", "x = 1\n    y"])
def test_preparing_the_beginning_of_what_is_there_forgets_nothing(
    decoder: AnyDecoder, tokenizer: Tokenizer, typed: str
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, typed)
    made, arena = generate(engine, prompt), engine.log.arena
    assert arena is not None
    held = arena.ids.tolist()
    for length in (len(prompt.ids), len(prompt.ids) - 1, 7, 1):
        assert engine.prepare(
            PrepareJob(A, replace(prompt, parts=(PromptPart("typed", prompt.ids[:length]),))), NEVER
        )
        assert (engine.log.passes, arena.ids.tolist(), arena.logits_at) == ([], held, len(prompt.ids))
        again = generate(engine, prompt)
        assert (again.text, engine.log.passes) == (made.text, [])


def test_preparing_another_prompt_costs_the_suggestion_its_keys_but_not_its_text(
    folder: Path, tokenizer: Tokenizer
) -> None:
    prompt, other = prompt_of(tokenizer, "x ="), other_of(tokenizer)
    engine = scripted(folder, prompt, canonical(tokenizer, "x =", " record.value"), tokenizer)
    generate(engine, prompt, ONE_LINE)
    assert engine.prepare(PrepareJob(A, other), NEVER)
    assert engine.reusable(A, prompt).reused < len(prompt.ids)
    made = generate(engine, prompt, ONE_LINE)
    assert (made.text, made.stats.known, engine.log.passes) == (" record.value", len(made.choices), [])


def test_a_suggestion_that_goes_on_after_its_keys_were_lost_is_the_same(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, cold, prompt = Watched(decoder, tokenizer), Watched(decoder, tokenizer), prompt_of(tokenizer, "def wri")
    generate(engine, prompt, limit=5)
    assert engine.prepare(PrepareJob(A, other_of(tokenizer)), NEVER)
    made = generate(engine, prompt, limit=12)
    generate(cold, prompt, limit=12)
    assert_same_tokens(engine.log, cold.log)
    assert made.stats.known == 5
    assert max(engine.log.passes) <= CHUNK


class Narrow(Eager):
    """Computes prompts in chunks of a given number of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = self.chunk = rows

    def record(self, rows: int, ms: float) -> None:
        super().record(rows, ms)
        self.chunk = self._rows


def test_a_draft_makes_no_pass_wider_than_a_chunk(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "def wri")
    for rows in range(16, CHUNK + 1):
        engine = paced(Watched(decoder, tokenizer), Narrow(rows))
        generate(engine, prompt, limit=5)
        assert engine.prepare(PrepareJob(A, other_of(tokenizer)), NEVER)
        made = generate(engine, prompt, limit=12)
        assert made.stats.known == 5
        assert max(engine.log.passes) <= rows


def test_what_other_arenas_hold_is_copied_not_computed_ahead(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def wri")
    longer = prompt_of(tokenizer, "def write(path")
    generate(engine, prompt)
    assert engine.prepare(PrepareJob(B, longer), NEVER)
    assert engine.prefetched == len(longer.ids) - len(prompt.ids) > 0
    assert generate(engine, prompt, limit=1, owner=A).stats.recomputed == 0


def test_what_is_given_up_before_an_answer_needed_it_is_wasted(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt, other = (
        Watched(decoder, tokenizer, arenas=1),
        prompt_of(tokenizer, "def wri"),
        other_of(tokenizer),
    )
    engine.prepare(PrepareJob(A, prompt), NEVER)
    assert engine.wasted == 0
    engine.prepare(PrepareJob(A, other), NEVER)
    wasted = len(prompt.ids) - common(prompt, other)
    assert engine.wasted == wasted
    generate(engine, other)
    generate(engine, prompt)
    assert engine.wasted == wasted, "what an answer needed is not wasted, nor is what an answer computed"


def test_of_what_an_answer_needed_in_part_the_rest_is_wasted(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=1), prompt_of(tokenizer, "x = 1\n")
    other = prompt_of(tokenizer, OTHER)
    shared = common(prompt, other)
    engine.prepare(PrepareJob(A, prompt), NEVER)
    generate(engine, other, limit=1)
    assert 0 < shared < len(prompt.ids)
    assert engine.wasted == len(prompt.ids) - shared
    generate(engine, other_of(tokenizer), limit=1)
    assert engine.wasted == len(prompt.ids) - shared


def common(one: Prompt, other: Prompt) -> int:
    """Tokens that two prompts begin with."""
    return next(n for n, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b)


def test_engines_that_mix_otherwise_share_what_was_prepared(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def wri")
    engine.prepare(PrepareJob(A, prompt), NEVER)
    other = LocalEngine(engine.parts.with_ngrams(CACHE))
    assert other.generate(GenerateJob(A, prompt, ONE_LINE, 1), NEVER).stats.recomputed == 0


typed_texts = st.sampled_from(["", "def ", "def wri", "def write(path", "x = 1\n", OTHER, "x = 1\ny"])
patience = st.integers(0, 12)
works = st.lists(
    st.tuples(st.sampled_from([A, B, FrameId("a", 1)]), typed_texts, st.booleans(), patience), min_size=1, max_size=8
)


@settings(max_examples=40)
@given(works=works, typed=typed_texts, arenas=st.integers(1, 3), cache=st.booleans())
def test_whatever_was_prepared_and_stopped_before_the_answer_is_the_cold_one(
    decoder: AnyDecoder,
    tokenizer: Tokenizer,
    works: list[tuple[FrameId, str, bool, int]],
    typed: str,
    arenas: int,
    cache: bool,
) -> None:
    mixed = CACHE if cache else None
    engine = Watched(decoder, tokenizer, arenas=arenas, cache=mixed)
    for owner, each, ahead, questions in works:
        prompt = prompt_of(tokenizer, each)
        if ahead:
            before = engine.reusable(owner, prompt).reused
            engine.prepare(PrepareJob(owner, prompt), after(questions))
            assert engine.reusable(owner, prompt).reused >= before
        else:
            try:
                generate(engine, prompt, owner=owner, cancel=after(questions))
            except Cancelled:
                continue
    prompt, cold = prompt_of(tokenizer, typed), Watched(decoder, tokenizer, cache=mixed)
    promised = engine.reusable(A, prompt).reused
    made = generate(engine, prompt)
    assert made.reused >= promised
    generate(cold, prompt)
    assert_same_tokens(engine.log, cold.log)
    assert engine.wasted <= engine.prefetched


def test_the_only_arena_is_left_to_the_frame_that_was_asked_for(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=1), prompt_of(tokenizer, "def ")
    assert engine.prepare(PrepareJob(B, prompt_of(tokenizer, OTHER)), NEVER)
    generate(engine, prompt)
    assert engine.prepare(PrepareJob(B, prompt_of(tokenizer, OTHER)), NEVER)
    assert engine.log.passes == []
    assert generate(engine, prompt).stats.recomputed == 0
