"""When the engine stops: where it is told to, at the limit of tokens, at the end of its arena."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.decoder.any_decoder import CHUNK, AnyDecoder
from model_runtime.prompt.prompt import PromptPart
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ONE_LINE, Watched
from tests.engine.prompts import (
    Eager,
    Shy,
    after,
    assert_same_tokens,
    canonical,
    generate,
    paced,
    prompt_of,
    scripted,
)


@pytest.mark.parametrize("pace", [Eager, Shy])
@pytest.mark.parametrize("questions", range(10))
def test_nothing_is_computed_after_it_is_told_to_stop(
    decoder: AnyDecoder, tokenizer: Tokenizer, questions: int, pace: type[Eager | Shy]
) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), pace()), prompt_of(tokenizer, "def ")
    with pytest.raises(Cancelled):
        generate(engine, prompt, cancel=after(questions))
    events = engine.log.events
    assert events.count("asked") == questions + 1
    assert events[-1] == "asked"


@settings(max_examples=40)
@given(questions=st.lists(st.integers(0, 14), max_size=3), eager=st.booleans(), cache=st.booleans())
def test_what_was_stopped_is_answered_as_if_it_had_never_begun(
    decoder: AnyDecoder, tokenizer: Tokenizer, questions: list[int], eager: bool, cache: bool
) -> None:
    mixed, prompt = CACHE if cache else None, prompt_of(tokenizer, "def ")
    engine = paced(Watched(decoder, tokenizer, cache=mixed), Eager() if eager else Shy())
    for each in questions:
        try:
            generate(engine, prompt, cancel=after(each))
        except Cancelled:
            assert engine.log.made is None
    cold = paced(Watched(decoder, tokenizer, cache=mixed), Shy())
    generate(cold, prompt)
    generate(engine, prompt)
    assert_same_tokens(engine.log, cold.log)


def test_it_asks_before_every_pass_and_no_pass_is_longer_than_a_chunk(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Shy()), prompt_of(tokenizer, "def ")
    generate(engine, prompt)
    events = engine.log.events
    assert len(prompt.ids) > 3 * CHUNK
    assert max(engine.log.passes) == CHUNK
    assert all(events[n - 1] == "asked" for n, event in enumerate(events) if event != "asked")


@pytest.mark.parametrize(
    ("tokens", "passes"), [(1, [1]), (64, [64]), (65, [64, 1]), (128, [64, 64]), (130, [64, 64, 2])]
)
def test_a_prompt_is_computed_in_chunks(
    decoder: AnyDecoder, tokenizer: Tokenizer, tokens: int, passes: list[int]
) -> None:
    prompt = prompt_of(tokenizer, "def ")
    engine = paced(Watched(decoder, tokenizer), Shy())
    generate(engine, replace(prompt, parts=(PromptPart("typed", prompt.ids[:tokens]),)), limit=1)
    assert engine.log.passes == passes


def test_a_request_that_is_stopped_at_once_computes_nothing(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine = Watched(decoder, tokenizer)
    with pytest.raises(Cancelled):
        generate(engine, prompt_of(tokenizer, "def "), cancel=Cancel(lambda: True))
    assert engine.log.passes == []


def test_a_request_that_needs_no_pass_is_answered_though_it_was_told_to_stop(
    folder: Path, tokenizer: Tokenizer
) -> None:
    prompt = prompt_of(tokenizer, "x =")
    engine = scripted(folder, prompt, canonical(tokenizer, "x =", " record.value"), tokenizer)
    generate(engine, prompt, ONE_LINE)
    assert generate(engine, prompt, ONE_LINE, cancel=Cancel(lambda: True)).text == " record.value"


@pytest.mark.parametrize("pace", [Eager, Shy])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_no_more_tokens_than_the_limit_are_made(
    decoder: AnyDecoder, tokenizer: Tokenizer, limit: int, pace: type[Eager | Shy]
) -> None:
    engine = paced(Watched(decoder, tokenizer), pace())
    made = generate(engine, prompt_of(tokenizer, "def "), limit=limit)
    assert (len(made.choices), made.complete) == (limit, False)
    assert len(engine.log.gaps) == limit


def test_a_shorter_limit_gives_the_beginning_of_the_same_text(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    long = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, "def "), limit=9).text
    short = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, "def "), limit=4).text
    assert long.startswith(short)
    assert short


@pytest.mark.parametrize("pace", [Eager, Shy])
@pytest.mark.parametrize("spare", [0, 1, 5])
def test_a_full_arena_ends_the_text(
    decoder: AnyDecoder, tokenizer: Tokenizer, spare: int, pace: type[Eager | Shy]
) -> None:
    prompt = prompt_of(tokenizer, "def ")
    engine = paced(Watched(decoder, tokenizer, capacity=len(prompt.ids) + spare), pace())
    made = generate(engine, prompt)
    assert (len(made.choices), made.complete) == (spare + 1, False)
    assert made.text == generate(Watched(decoder, tokenizer), prompt, limit=spare + 1).text
