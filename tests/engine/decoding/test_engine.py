"""The engine: what it computes and what it reuses, and what its n-grams read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER, Cancelled
from model_runtime.counts.snapshot import CountsView
from model_runtime.decoder.any_decoder import CHUNK, AnyDecoder
from model_runtime.engine.engine import GenerateJob, PrepareJob, SavedFrame
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.ngrams import Chances, Mixture, Ngrams
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.prompt import NO_SURROUNDINGS, Surroundings, build
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, Watched, ids_of
from tests.engine.prompts import HEAD, TAIL, A, B, Eager, Shy, after, assert_same_tokens, generate, paced, prompt_of
from tests.models import CODE

LINES = CODE.splitlines()


# What is computed

typed_texts = st.sampled_from(["", "def ", "def wri", "def write(path", "def read", "x = 1\ny = 2\n", "x = 1\n", "x"])


@settings(max_examples=40)
@given(requests=st.lists(st.tuples(typed_texts, st.sampled_from([A, B]), st.integers(1, 14)), min_size=1, max_size=8))
def test_what_an_answer_is_said_to_cost_is_what_it_cost(
    decoder: AnyDecoder, tokenizer: Tokenizer, requests: list[tuple[str, FrameId, int]]
) -> None:
    """A token is known, or it is asked for. Each pass but those for the prompt gives a token; a draft gives more."""
    engine = paced(Watched(decoder, tokenizer), Eager())
    for typed, owner, limit in requests:
        prompt = prompt_of(tokenizer, typed)
        made = generate(engine, prompt, limit=limit, owner=owner)
        spent, passes = made.stats, engine.log.passes
        assert made.reused + spent.recomputed == len(prompt.ids)
        assert spent.known + len(engine.log.gaps) == len(made.choices) <= limit
        assert 0 <= spent.accepted <= spent.drafted
        lacking = sum(passes) - (spent.recomputed + spent.passes + spent.drafted)
        assert 0 <= lacking <= spent.known, "only known tokens may have been chosen without being computed"
        assert len(passes) == -(-spent.recomputed // CHUNK) + spent.passes
        assert len(made.choices) <= spent.known + 1 + spent.passes + spent.accepted


def test_without_a_storage_nothing_is_saved_given_back_or_closed(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    made = generate(engine, prompt)
    generate(engine, prompt, owner=B)
    assert engine.save("a", [SavedFrame(A, prompt, frozenset())], NEVER) and engine.flush(0)
    engine.rest(0)
    engine.close(0)
    again = generate(engine, prompt)
    assert (again.text, engine.log.passes, engine.statistics().tiers) == (made.text, [], ())


def test_without_drafts_each_new_token_but_the_first_is_a_pass(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Shy()), prompt_of(tokenizer, "def wri")
    made = generate(engine, prompt, limit=9)
    spent, count = made.stats, len(made.choices)
    assert (spent.recomputed, spent.passes, spent.drafted) == (len(prompt.ids), count - 1, 0)
    assert sum(engine.log.passes) == len(prompt.ids) + count - 1


def test_an_unchanged_prompt_costs_no_forward_pass(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    first = generate(engine, prompt)
    again = generate(engine, prompt)
    assert first.stats.recomputed == len(prompt.ids)
    assert (again.reused, again.stats.recomputed, engine.log.passes) == (len(prompt.ids), 0, [])
    assert again.text == first.text


@pytest.mark.parametrize("typed", ["def ", "return rec", "x = 1\n"])
def test_an_unchanged_prompt_with_another_history_costs_no_prefill(
    decoder: AnyDecoder, tokenizer: Tokenizer, typed: str
) -> None:
    """What follows the prompt is kept, whatever the n-grams then make of it."""
    template = find_template(tokenizer)
    prompt, other = (
        build(tokenizer, template, HEAD, TAIL, typed, each)
        for each in (NO_SURROUNDINGS, Surroundings(before="zebra = 1\n"))
    )
    engine, cold = Watched(decoder, tokenizer, cache=CACHE), Watched(decoder, tokenizer, cache=CACHE)
    generate(paced(engine, Eager()), prompt, expected=ids_of([9, 8, 7]))
    assert generate(engine, other).stats.recomputed == 0
    generate(cold, other)
    assert_same_tokens(engine.log, cold.log)


def test_an_unchanged_prompt_costs_no_prefill_after_a_request_that_stopped_while_decoding(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    with pytest.raises(Cancelled):
        generate(engine, prompt, cancel=after(len(prompt.ids) // CHUNK + 3))
    generate(engine, prompt, limit=1)
    assert engine.log.passes == []


def test_a_stopped_prefill_is_not_lost(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Shy()), prompt_of(tokenizer, "def ")
    with pytest.raises(Cancelled):
        generate(engine, prompt, cancel=after(2))
    assert generate(engine, prompt).reused == 2 * CHUNK


def test_typing_words_through_recomputes_at_most_two_tokens_a_keystroke(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    words = ["def", " record", ".value", " for", " record", " in", " records", ":", "\n"]
    assert all(len(tokenizer.encode(word)) == 1 for word in words)
    line, engine = "".join(words), Watched(decoder, tokenizer)
    generate(engine, prompt_of(tokenizer, ""))
    costs = [generate(engine, prompt_of(tokenizer, line[:n])).stats.recomputed for n in range(1, len(line) + 1)]
    assert max(costs) <= 2
    assert sum(costs) <= 2 * len(words)


def test_typing_on_inside_a_word_recomputes_nothing(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, word = Watched(decoder, tokenizer), "incomprehensibility"
    generate(engine, prompt_of(tokenizer, "x = " + word[0]))
    for n in range(2, len(word) + 1):
        assert generate(engine, prompt_of(tokenizer, "x = " + word[:n])).stats.recomputed == 0


def test_taking_back_keystrokes_recomputes_at_most_one_token(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, line = Watched(decoder, tokenizer), "return record.value for record in records"
    generate(engine, prompt_of(tokenizer, line))
    for n in range(len(line) - 1, -1, -1):
        assert generate(engine, prompt_of(tokenizer, line[:n]), limit=1).stats.recomputed <= 1


def test_a_second_document_that_begins_alike_is_copied_not_computed(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    first = generate(engine, prompt, owner=A)
    second = generate(engine, prompt, owner=B)
    assert second.stats.recomputed <= 1
    assert second.text == first.text


@pytest.mark.parametrize("arenas", [1, 2, 4])
def test_keys_and_values_are_allocated_once_for_each_arena_however_long_the_session(
    decoder: AnyDecoder, tokenizer: Tokenizer, arenas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, allocate = list[DenseArena](), DenseArena.__init__

    def counted(arena: DenseArena, *arguments: Any) -> None:
        allocate(arena, *arguments)
        made.append(arena)

    monkeypatch.setattr(DenseArena, "__init__", counted)
    engine, generator, seen = Watched(decoder, tokenizer, arenas=arenas), random.Random(0), set[tuple[int, int]]()
    for _ in range(120):
        owner, at = FrameId(generator.choice("abc"), generator.randrange(3)), generator.randrange(len(LINES))
        prompt = prompt_of(tokenizer, LINES[at], "\n".join(LINES[max(0, at - generator.randrange(20)) : at]))
        match generator.randrange(6):
            case 0:
                engine.release(owner.document)
            case 1 | 2:
                engine.prepare(PrepareJob(owner, prompt), after(generator.randrange(5)))
            case _:
                generate(engine, prompt, owner=owner, limit=generator.randint(1, 9))
        seen |= {(arena.k.ctypes.data, arena.v.ctypes.data) for arena in made}
    assert len(made) == len(seen) == arenas


# What the n-grams see


@dataclass(frozen=True)
class Seen(Ngrams):
    """N-grams that keep the histories they were asked about."""

    histories: list[list[int]] = field(default_factory=list[list[int]])

    @cached_property
    def mixer(self) -> None:  # the compiled part does not ask them
        return None

    def mixture(self, probabilities: Chances, history: Ids, counts: CountsView | None = None) -> Mixture:
        self.histories.append(history.tolist())
        return super().mixture(probabilities, history, counts)


def mixing(engine: Watched, cache: Ngrams | None) -> LocalEngine:
    """Another engine of the same parts that mixes in another cache."""
    return LocalEngine(engine.parts.with_ngrams(cache))


def test_the_history_grows_by_each_token_that_was_picked(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    seen, prompt = Seen(CACHE.shares, CACHE.half_life), prompt_of(tokenizer, "def ")
    made = mixing(Watched(decoder, tokenizer), seen).generate(GenerateJob(A, prompt, ENDLESS, 7), NEVER)
    engine = Watched(decoder, tokenizer, cache=CACHE)
    assert generate(engine, prompt, limit=7).text == made.text
    tokens = engine.log.tokens
    assert seen.histories == [[*prompt.history.tolist(), *tokens[:n]] for n in range(len(made.choices))]


def test_engines_that_mix_otherwise_share_what_was_computed_and_not_what_was_chosen(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    plain = generate(engine, prompt)
    job = GenerateJob(A, prompt, ENDLESS, 12)
    mixed = mixing(engine, CACHE.without_model()).generate(job, NEVER)
    assert (mixed.reused, mixed.stats.recomputed, mixed.stats.known) == (len(prompt.ids), 0, 0)
    assert mixed.text == generate(Watched(decoder, tokenizer, cache=CACHE.without_model()), prompt).text != plain.text
    again = mixing(engine, None).generate(job, NEVER)
    assert (again.text, again.stats.recomputed) == (plain.text, 0)


PHRASE = "\nzebra.quagga(wombat, 77)\n"


@pytest.mark.parametrize(
    "around", [Surroundings(before=PHRASE), Surroundings(after=PHRASE), Surroundings(others=(PHRASE,))]
)
def test_a_phrase_that_no_prompt_shows_is_finished_from_the_surroundings(
    decoder: AnyDecoder, tokenizer: Tokenizer, around: Surroundings
) -> None:
    template = find_template(tokenizer)
    prompts = [build(tokenizer, template, HEAD, TAIL, "zebra.qu", each) for each in (around, NO_SURROUNDINGS)]
    engine = Watched(decoder, tokenizer, cache=CACHE.without_model())
    texts = [generate(engine, prompt, ONE_LINE, limit=40).text for prompt in prompts]
    assert texts[0] == "agga(wombat, 77)" != texts[1]
