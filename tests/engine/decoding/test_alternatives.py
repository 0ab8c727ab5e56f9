"""Alternatives: the likeliest other beginnings, each gone on with as the model would alone, in shared passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.alternatives import Fork, forks, line_forks
from model_runtime.engine.drafts import PassCosts
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.engine.stops import Rule
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer, Vocabulary
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, Watched, ids_of, key_of
from tests.engine.prompts import A, B, C, Shy, after, generate, paced, prompt_of
from tests.models import CODE

LIMIT = 10
TYPED = st.sampled_from(["", "x = ", "    return sel", "def tot", "\n    ", "é", CODE[300:333]])


def alternatives(
    engine: Watched,
    prompt: Prompt,
    made: Generation,
    count: int = 3,
    rule: Rule = ENDLESS,
    cancel: Cancel = NEVER,
    limit: int = LIMIT,
) -> list[str]:
    return engine.others(prompt, made.choices, rule, limit, count, cancel)


def decoded_apart(engine: Watched, prompt: Prompt, chosen: Sequence[Choice], count: int, rule: Rule) -> list[str]:
    """What the model goes on to say behind each of the likeliest forks, those with the likeliest first line first."""
    places = islice(line_forks(engine.sampler, chosen, prompt.stub, rule), count)
    outputs = [decoded_alone(engine, prompt, chosen, fork, rule) for fork in places]
    return [output.text for output in sorted(outputs, key=lambda output: -output.confidence)]


def decoded_alone(engine: Watched, prompt: Prompt, chosen: Sequence[Choice], fork: Fork, rule: Rule) -> Output:
    """What the model goes on to say behind a fork, token by token, with nothing computed before."""
    output = Output(engine.sampler, prompt.stub, rule)
    for choice in (*chosen[: fork.at], fork.choice):
        output.append(choice)
    row, history = (
        np.concatenate((ids, ids_of([*(choice.token for choice in chosen[: fork.at]), fork.choice.token])))
        for ids in (prompt.ids, prompt.history)
    )
    for _ in range(LIMIT - fork.at - 1):
        if output.complete:
            break
        logits = engine.model.forward(row, engine.pool.scratch(), 1)[0]
        choice = engine.sampler.pick(logits, history, output.stub)
        output.append(choice)
        row, history = (np.append(ids, np.int32(choice.token)) for ids in (row, history))
    return output


@pytest.mark.parametrize("cache", [None, CACHE])
@settings(max_examples=12)
@given(typed=TYPED, count=st.integers(1, 4), again=st.booleans(), rule=st.sampled_from([ENDLESS, ONE_LINE]))
def test_each_is_what_the_model_says_alone_behind_its_fork(
    decoder: AnyDecoder, tokenizer: Tokenizer, cache: Ngrams | None, typed: str, count: int, again: bool, rule: Rule
) -> None:
    """Whatever the arenas held before, and however many go on in one pass."""
    engine, prompt = Watched(decoder, tokenizer, arenas=6, cache=cache), prompt_of(tokenizer, typed)
    made = generate(engine, prompt, rule, LIMIT)
    if again:
        alternatives(engine, prompt_of(tokenizer, "y"), generate(engine, prompt_of(tokenizer, "y"), ENDLESS, LIMIT))
        made = generate(engine, prompt, rule, LIMIT)
    found = alternatives(engine, prompt, made, count, rule)
    assert found == decoded_apart(engine, prompt, made.choices, count, rule)


def test_all_are_computed_in_the_same_passes_and_the_prompt_in_none(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=6), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    found = alternatives(engine, prompt, made, 4)
    assert len(found) == 4
    first, *more = engine.log.passes
    assert first < 4 * LIMIT, "only what the copies lack"
    assert len(more) < LIMIT and all(rows <= 4 for rows in more)


def test_an_answer_comes_with_as_many_others_as_are_wanted_beside_it(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=6), prompt_of(tokenizer, "x = ")
    alone = engine.generate(GenerateJob(A, prompt, ENDLESS, LIMIT), NEVER)
    among = engine.generate(GenerateJob(A, prompt, ENDLESS, LIMIT, wanted=3), NEVER)
    assert (alone.others, among.text, len(among.others)) == ((), alone.text, 2)
    assert among.others == tuple(alternatives(engine, prompt, alone, 2))


def test_the_first_answer_is_still_known_afterwards(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=4), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    alternatives(engine, prompt, made)
    again = generate(engine, prompt, ENDLESS, LIMIT)
    assert (again.text, engine.log.passes) == (made.text, [])


@pytest.mark.parametrize(("arenas", "count"), [(1, 0), (2, 1), (3, 2), (9, 3)])
def test_there_are_no_more_than_spare_arenas(
    decoder: AnyDecoder, tokenizer: Tokenizer, arenas: int, count: int
) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=arenas), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    assert len(alternatives(engine, prompt, made)) == count


@pytest.mark.parametrize("patience", range(3))
def test_they_stop_within_a_pass(decoder: AnyDecoder, tokenizer: Tokenizer, patience: int) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=4), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    with pytest.raises(Cancelled):
        alternatives(engine, prompt, made, cancel=after(patience))
    assert len(engine.log.passes) == patience
    again = generate(engine, prompt, ENDLESS, LIMIT)
    assert again.text == made.text


def test_they_end_where_the_arena_does(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "x = ")
    engine = Watched(decoder, tokenizer, capacity=len(prompt.ids) + 4, arenas=3)
    made = generate(engine, prompt, ENDLESS, 50)
    assert len(alternatives(engine, prompt, made, limit=50)) == 2


def test_frames_keep_their_arenas_and_forks_make_way(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=3), prompt_of(tokenizer, "x = ")
    generate(engine, prompt_of(tokenizer, "y"), ENDLESS, LIMIT, B)
    made = generate(engine, prompt, ENDLESS, LIMIT)
    alternatives(engine, prompt, made, 1)
    generate(engine, prompt_of(tokenizer, "z"), ENDLESS, LIMIT, C)
    for owner, typed in ((A, "x = "), (B, "y")):
        generate(engine, prompt_of(tokenizer, typed), ENDLESS, LIMIT, owner)
        assert engine.log.passes == []


def test_a_prompt_that_is_known_but_gone_is_computed_in_chunks(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    """Whoever has the arena by then, a newer request waits for one chunk at most."""
    engine, prompt = Watched(decoder, tokenizer, arenas=3), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    for owner in (A, B, C):
        engine.pool.acquire(owner, key_of([1])).truncate(0)
    found = alternatives(engine, prompt, made, 2)
    assert found == decoded_apart(engine, prompt, made.choices, 2, ENDLESS)
    assert max(engine.log.passes) <= 2 * decoder.chunk


class Unread(tuple[Choice, ...]):
    """Choices that nobody may look at."""

    def __iter__(self) -> Iterator[Choice]:
        raise AssertionError("these choices were read")


def test_who_wants_one_answer_pays_for_no_forks(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "x = ")
    made = replace(generate(engine, prompt, ENDLESS, LIMIT), choices=Unread())
    assert alternatives(engine, prompt, made, 0) == []
    with pytest.raises(AssertionError, match="read"):
        alternatives(engine, prompt, made, 1)


def test_forks_of_another_file_make_way_for_frames(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer, arenas=3), prompt_of(tokenizer, "x = ")
    made = generate(engine, prompt, ENDLESS, LIMIT)
    alternatives(engine, prompt, made)
    for owner in (B, A, B):
        generate(engine, prompt, ENDLESS, LIMIT, owner)
    assert engine.log.passes == [] and len(engine.pool.made) == 3


TABLE = [b"", b"re", b"turn", b"return", b"returns", b" x", b" y", b"\n", b"\n\n"]
WORDS = cast("Tokenizer", SimpleNamespace(token_bytes=TABLE, vocab=len(TABLE), vocabulary=Vocabulary(TABLE)))


def choice_of(spelled: bytes, **chances: float) -> Choice:
    """A whole word, chosen among words with these chances."""
    ids = [TABLE.index(name.replace("_", " ").encode()) for name in chances]
    chance = chances[spelled.decode().replace(" ", "_")]
    return Choice(TABLE.index(spelled), chance, ids_of(ids), np.array(list(chances.values()), dtype=np.float32))


def forks_of(
    *chosen: Choice, stub: bytes = b"", count: int = 9, ends: Collection[int] = ()
) -> list[tuple[int, bytes, float]]:
    found = islice(forks(Sampler(WORDS, None, ends), chosen, stub), count)
    return [(fork.at, TABLE[fork.choice.token], round(fork.probability, 3)) for fork in found]


RE = choice_of(b"re", re=0.5, **{"return": 0.25, "_x": 0.125})
TURN = choice_of(b"turn", turn=0.5, _y=0.5)
X = choice_of(b" x", _x=0.5, _y=0.5)


def test_what_spells_the_same_in_other_pieces_is_no_fork() -> None:
    assert [fork[:2] for fork in forks_of(RE, TURN)] == [(1, b" y"), (0, b" x")]


def test_forks_are_ordered_by_what_all_their_tokens_are_worth() -> None:
    assert forks_of(X, X) == [(0, b" y", 0.5), (1, b" y", 0.25)]
    assert forks_of(X, X, count=1) == [(0, b" y", 0.5)]


def test_a_typed_beginning_leaves_what_spells_on_with_it() -> None:
    both = choice_of(b" x", _x=0.25, _y=0.25, returns=0.5)
    assert forks_of(both) == [(0, b"returns", 0.5), (0, b" y", 0.25)]
    assert forks_of(both, stub=b" ") == [(0, b" y", 0.5)]
    assert forks_of(both, X, stub=b" x") == [(1, b" y", 0.5)]


LINE_END = choice_of(b"\n", **{"\n": 0.5, "_x": 0.25, "\n\n": 0.25})
END = choice_of(b"", **{"": 0.5, "_x": 0.25, "\n": 0.25})
NO_END = choice_of(b"turn", turn=0.5, _x=0.25, **{"\n": 0.25})


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ([X, LINE_END, X], [(0, b" y"), (1, b" x")]),
        ([X, END], [(0, b" y"), (1, b" x")]),
        ([X, NO_END], [(0, b" y"), (1, b" x"), (1, b"\n")]),
        ([LINE_END, X, LINE_END, X], [(0, b" x"), (0, b"\n\n"), (1, b" y"), (2, b" x")]),
    ],
    ids=["a line end", "an end", "a limit", "a blank line before"],
)
def test_another_first_line_departs_within_the_line_and_does_not_end_it_alike(
    chosen: Sequence[Choice], kept: Sequence[tuple[int, bytes]]
) -> None:
    found = line_forks(Sampler(WORDS, None, {END.token}), chosen, b"", ENDLESS)
    assert [(fork.at, TABLE[fork.choice.token]) for fork in found] == kept


def test_of_two_words_that_begin_alike_the_likelier_is_a_fork() -> None:
    said = choice_of(b" x", _x=0.5, returns=0.2, **{"return": 0.3})
    assert forks_of(said) == [(0, b"return", 0.3)]


def test_of_what_is_too_unlikely_for_fp32_nothing_forks() -> None:
    assert forks_of(X._replace(chance=0.0, likely=ids_of([]), chances=np.zeros(0, dtype=np.float32))) == []


@pytest.mark.parametrize("spelled", [b"", b" y"])
def test_an_end_is_no_fork(spelled: bytes) -> None:
    end = TABLE.index(spelled)
    assert forks_of(X._replace(likely=ids_of([X.token, end])), ends={end}) == []


class Drawn(PassCosts):
    """Takes its passes to have lasted as long as was drawn."""

    def __init__(self, times: Sequence[float]) -> None:
        super().__init__()
        self._times = cycle(times)

    def record(self, rows: int, ms: float) -> None:
        super().record(rows, next(self._times))


@settings(max_examples=20)
@given(
    texts=st.lists(TYPED, min_size=1, max_size=4),
    times=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8),
    cache=st.sampled_from([None, CACHE]),
)
def test_nothing_that_is_said_depends_on_how_long_passes_take(
    decoder: AnyDecoder, tokenizer: Tokenizer, texts: list[str], times: list[float], cache: Ngrams | None
) -> None:
    engines = [paced(Watched(decoder, tokenizer, arenas=6, cache=cache), costs) for costs in (Drawn(times), Shy())]
    for typed in texts:
        job = GenerateJob(A, prompt_of(tokenizer, typed), ENDLESS, LIMIT, wanted=3, better_line=True)
        timed, untimed = (engine.generate(job, NEVER) for engine in engines)
        assert (timed.text, timed.others) == (untimed.text, untimed.others)
        assert [each.token for each in timed.choices] == [each.token for each in untimed.choices]
