"""The first line of an answer is the likeliest of a few, however it was found and whatever was computed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER, Cancelled
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.alternatives import MOST_LINES, forks
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import LEAST_CHANCE, Choice
from model_runtime.engine.stops import Rule, stop_rule
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import load
from model_runtime.prompt.prompt import Prompt, PromptPart, build
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, Surer, Watched, ids_of, quick_decoder_of
from tests.engine.prompts import A, Shy, after, paced, prompt_of
from tests.models import CODE

LIMIT = 24
LINE_TOKENS = 12
STORE = """import json
from pathlib import Path


class Store:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = {}

    def read(self) -> None:
        self.values = json.loads(self.path.read_text())

    def write(self) -> None:
        self.path.write_text(json.dumps(self.values))

    def get(self, name):
        return self.values[name]

    def set(self, name, value):
        self.values[name] = value
        self.write()

"""
TYPED = st.sampled_from(
    ["", "x = ", "    return sel", "def tot", "\n    ", "é", CODE[300:333], *CODE.splitlines()[:40]]
)
RULES = st.sampled_from([ENDLESS, ONE_LINE])


@pytest.fixture(scope="module")
def decoder(folder: Path, tokenizer: Tokenizer) -> AnyDecoder:
    """The tiny Llama's decoder, which keeps nothing between passes."""
    return Surer(quick_decoder_of(folder), tokenizer)


def watched(decoder: AnyDecoder, tokenizer: Tokenizer, cache: Ngrams | None = CACHE, arenas: int = 6) -> Watched:
    return paced(Watched(decoder, tokenizer, arenas=arenas, cache=cache, line_tokens=LINE_TOKENS), Shy())


def answer(engine: Watched, prompt: Prompt, rule: Rule = ENDLESS, better: bool = True) -> Generation:
    return engine.generate(GenerateJob(A, prompt, rule, LIMIT, better_line=better), NEVER)


def after_choices(engine: Watched, prompt: Prompt, chosen: Sequence[Choice], rule: Rule) -> Output:
    output = Output(engine.sampler, prompt.stub, rule)
    for choice in chosen:
        output.append(choice)
    return output


def line_behind(engine: Watched, prompt: Prompt, start: Sequence[Choice], rule: Rule) -> Output:
    """The first line that the model goes on to say behind some tokens, with nothing computed before."""
    output, chosen = after_choices(engine, prompt, start, rule), list(start)
    while not output.line_ended and len(chosen) < min(LIMIT, len(start) + LINE_TOKENS):
        ids, history = (np.append(row, tokens_of(chosen)) for row in (prompt.ids, prompt.history))
        logits = engine.model.forward(ids, engine.pool.scratch(), 1)[0]
        chosen.append(engine.sampler.pick(logits, history, output.stub))
        output.append(chosen[-1])
    return output


def tokens_of(chosen: Sequence[Choice]) -> np.ndarray:
    return ids_of([choice.token for choice in chosen])


def first_line(engine: Watched, prompt: Prompt, made: Generation, rule: Rule) -> list[Choice]:
    output, chosen = Output(engine.sampler, prompt.stub, rule), list[Choice]()
    for choice in made.choices:
        if not output.line_ended:
            output.append(choice)
            chosen.append(choice)
    return chosen


def joint(engine: Watched, prompt: Prompt, chosen: Sequence[Choice], cache: Ngrams | None) -> float:
    """The probability of some tokens, from the model's distributions after each of them."""
    reached, stub, sampler = 1.0, prompt.stub, engine.sampler
    for at, choice in enumerate(chosen):
        ids, history = (np.append(row, tokens_of(chosen[:at])) for row in (prompt.ids, prompt.history))
        chances = torch.softmax(
            torch.as_tensor(engine.model.forward(ids, engine.pool.scratch(), 1)[0]), dim=-1
        ).numpy()
        chances = cache.mix(chances, history) if cache else chances
        fitting = [token for token in range(len(chances)) if not stub or sampler.spells(token, stub)]
        likely = sum(float(chances[token]) for token in fitting if chances[token] >= LEAST_CHANCE)
        reached *= float(chances[choice.token]) / max(likely, float(chances[choice.token]))
        stub = stub[len(sampler.token_bytes[choice.token]) :]
    return reached


@pytest.mark.parametrize("cache", [None, CACHE])
@settings(max_examples=8)
@given(typed=TYPED, rule=RULES)
def test_it_is_the_likeliest_of_the_greedy_line_and_three_others(
    decoder: AnyDecoder, tokenizer: Tokenizer, cache: Ngrams | None, typed: str, rule: Rule
) -> None:
    engine, prompt = watched(decoder, tokenizer, cache), prompt_of(tokenizer, typed)
    made, greedy = answer(engine, prompt, rule), answer(watched(decoder, tokenizer, cache), prompt, rule, False)
    chosen = first_line(engine, prompt, greedy, rule)
    places = islice(forks(engine.sampler, chosen, prompt.stub, greedy.confidence), MOST_LINES)
    others = [line_behind(engine, prompt, [*chosen[: place.at], place.choice], rule) for place in places]
    whole = [each.confidence for each in others if each.line_ended and each.text.strip()]
    assert made.confidence == pytest.approx(max([greedy.confidence, *whole]), rel=1e-3)
    assert made.confidence > greedy.confidence or made.text == greedy.text


@pytest.mark.parametrize("cache", [None, CACHE])
@settings(max_examples=8)
@given(typed=TYPED, rule=RULES)
def test_its_confidence_is_what_the_models_distributions_give_it(
    decoder: AnyDecoder, tokenizer: Tokenizer, cache: Ngrams | None, typed: str, rule: Rule
) -> None:
    engine, prompt = watched(decoder, tokenizer, cache), prompt_of(tokenizer, typed)
    made = answer(engine, prompt, rule)
    chosen = first_line(engine, prompt, made, rule)
    if all(choice.whole for choice in chosen):
        assert made.confidence == pytest.approx(joint(engine, prompt, chosen, cache), rel=1e-3)


def places_with_a_better_line(decoder: AnyDecoder, tokenizer: Tokenizer) -> list[Prompt]:
    prompts = [prompt_of(tokenizer, line) for line in CODE.splitlines()]
    pairs = [
        [answer(watched(decoder, tokenizer), each, ENDLESS, on) for on in (True, False)] for each in prompts[:24]
    ]
    return [prompt for prompt, (made, greedy) in zip(prompts, pairs, strict=False) if made.text != greedy.text]


@pytest.fixture(scope="module")
def departing(decoder: AnyDecoder, tokenizer: Tokenizer) -> list[Prompt]:
    """Prompts after which another line than the greedy one is the likeliest."""
    found = places_with_a_better_line(decoder, tokenizer)
    assert len(found) >= 3
    return found


def test_accepting_it_computes_no_prompt(decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt]) -> None:
    for prompt in departing:
        engine = watched(decoder, tokenizer)
        made = answer(engine, prompt)
        tokens = tokens_of(first_line(engine, prompt, made, ENDLESS))
        ids, history = (np.append(row, tokens) for row in (prompt.ids, prompt.history))
        accepted = replace(prompt, parts=(PromptPart("typed", ids),), history=history, stub=b"")
        then = answer(engine, accepted, better=False)
        assert then.stats.recomputed == 0
        assert then.choices[: len(made.choices) - len(tokens)] == made.choices[len(tokens) :]


def test_asking_again_costs_no_pass(decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt]) -> None:
    for prompt in departing:
        engine = watched(decoder, tokenizer)
        made = answer(engine, prompt)
        again = answer(engine, prompt)
        assert (again.text, again.confidence, engine.log.passes) == (made.text, made.confidence, [])
        assert again.stats.known == len(again.choices)
        greedy = answer(engine, prompt, better=False)
        assert greedy.text == answer(watched(decoder, tokenizer), prompt, better=False).text != made.text


def test_its_keys_and_values_are_those_of_one_pass(
    decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt]
) -> None:
    for prompt in departing:
        engine = watched(decoder, tokenizer)
        answer(engine, prompt)
        arena, scratch = engine.pool.get(A), engine.pool.scratch()
        assert arena is not None and arena.length > len(prompt.ids)
        decoder.forward(arena.ids.copy(), scratch)
        assert np.allclose(arena.k[:, :, : arena.length], scratch.k[:, :, : arena.length], atol=1e-4)
        assert np.allclose(arena.v[:, :, : arena.length], scratch.v[:, :, : arena.length], atol=1e-4)


def test_the_search_stops_within_a_pass(decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt]) -> None:
    prompt = departing[0]
    reference = watched(decoder, tokenizer)
    made = answer(reference, prompt)
    for patience in range(len(reference.log.passes)):
        engine = watched(decoder, tokenizer)
        with pytest.raises(Cancelled):
            engine.generate(GenerateJob(A, prompt, ENDLESS, LIMIT, better_line=True), after(patience))
        assert len(engine.log.passes) == patience
        assert answer(engine, prompt).text == made.text


def test_its_passes_are_counted_and_bounded(
    decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt]
) -> None:
    for prompt in departing:
        engine, alone = watched(decoder, tokenizer), watched(decoder, tokenizer)
        made, greedy = answer(engine, prompt), answer(alone, prompt, better=False)
        prefill = len(alone.log.passes) - greedy.stats.passes
        assert made.stats.passes == len(engine.log.passes) - prefill
        chosen = first_line(alone, prompt, greedy, ENDLESS)
        assert made.stats.passes <= len(chosen) + LINE_TOKENS + LIMIT


@pytest.mark.parametrize(("arenas", "line_tokens"), [(1, LINE_TOKENS), (6, 0)])
def test_without_a_spare_arena_or_time_the_line_is_the_greedy_one(
    decoder: AnyDecoder, tokenizer: Tokenizer, departing: list[Prompt], arenas: int, line_tokens: int
) -> None:
    engine = Watched(decoder, tokenizer, arenas=arenas, cache=CACHE, line_tokens=line_tokens)
    for prompt in departing:
        made = answer(engine, prompt)
        assert made.text == answer(watched(decoder, tokenizer), prompt, better=False).text


def test_the_embedded_model_finds_a_better_line_than_the_greedy_one() -> None:
    model = load(
        read_checkpoint(EMBEDDED),
        weights="fp32",
        threads=1,
        capacity=512,
        kv_memory_mib=64,
        ngrams=True,
        progress=lambda *_: None,
    )
    prompt = build(model.tokenizer, model.template, STORE, "", "    def save(self")
    rule = stop_rule("    def save(self", "", explicit=False, max_lines=12)
    jobs = [GenerateJob(A, prompt, rule, 48, better_line=better) for better in (False, True)]
    engine = LocalEngine(model.parts)
    greedy, made = (engine.generate(job, NEVER) for job in jobs)
    assert made.text != greedy.text
    assert made.confidence > greedy.confidence
