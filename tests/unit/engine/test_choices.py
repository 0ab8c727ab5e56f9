"""What is recalled is what a fresh greedy pick would give, on made-up scores of every row of tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, CountsView
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.sampler import Choice, Choices, SeenCounts
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizer import Vocabulary

TABLE = [b"", b"", *map(bytes, [b"a", b"b", b"c", b"ab", b"abc", b"ba", b"bc", b"ca", b"abca", b"cab", b"bcab"])]
VOCABULARY = Vocabulary(TABLE)
LIMIT = 6
caches = st.sampled_from([None, Ngrams((0.5,), 10.0), Ngrams((0.5,), 20.0)])
rows = st.lists(st.integers(2, len(TABLE) - 1), min_size=1, max_size=5).map(tuple)
histories = st.lists(st.integers(-1, 3), max_size=3).map(tuple)
stubs = st.text("abc", max_size=5).map(str.encode)


def ids(tokens: Sequence[int]) -> Ids:
    return np.array(tokens, dtype=np.int32)


def view_of(*texts: Sequence[int]) -> CountsView:
    documents = [CountedDocument(str(n), bytes(text), ids(text)) for n, text in enumerate(texts)]
    return EMPTY.with_changes((), documents).without(())


VIEWS = (None, view_of([2, 3, 2, 3]), view_of([3, 4, 5]))


def chosen(token: int) -> Choice:
    return Choice(token, 0.5, ids([token]), np.array([0.5], dtype=np.float32))


def spells(token: int, stub: bytes) -> bool:
    spelled = TABLE[token]
    return bool(spelled) and (spelled.startswith(stub) or stub.startswith(spelled))


@dataclass(frozen=True)
class Asked:
    """A prompt of a tail and a row; its history is what stands `before` the row, and the row."""

    row: tuple[int, ...]
    stub: bytes = b""
    before: tuple[int, ...] = ()
    cache: Ngrams | None = None
    tail: tuple[int, ...] = ()
    counts: CountsView | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        return (*self.tail, *self.row)

    @property
    def history(self) -> tuple[int, ...]:
        return (*self.before, *self.row)

    def on(self, tokens: Sequence[int]) -> Asked:
        return replace(self, row=(*self.row, *tokens))


def versions(asked: Asked) -> int | None:
    return asked.counts and asked.counts.version


@dataclass
class World:
    """Scores of every token after everything that a choice may depend on, no two of them alike.

    `steady` scores depend on the place alone, so that the same words come after other beginnings as well.
    """

    seed: int
    steady: bool = False

    def pick(self, asked: Asked) -> int:
        where = len(asked.history) if self.steady else (asked.ids, asked.history, asked.cache, versions(asked))
        scores = list(range(len(TABLE)))
        random.Random(f"{self.seed} {where}").shuffle(scores)
        fitting = VOCABULARY.fitting(asked.stub).tolist() if asked.stub else range(len(TABLE))
        return max(fitting, key=scores.__getitem__)


@dataclass
class Made:
    """The tokens of an answer, and which of them were recalled."""

    tokens: list[int] = field(default_factory=list)
    recalled: list[bool] = field(default_factory=list)


class Counts:
    """Answers as a decoding does, with the choices of the answer before."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.choices: Choices | None = None

    def answer(self, asked: Asked, limit: int = LIMIT) -> Made:
        made, stub = Made(), asked.stub
        key = ids(asked.ids), ids(asked.history), SeenCounts.by(asked.cache, asked.counts)
        if self.choices is None or not self.choices.apply_to(*key):
            self.choices = Choices(*key)
        for position in range(len(asked.ids), len(asked.ids) + limit):
            choice = self.choices.at(position, stub, spells)
            made.recalled.append(choice is not None)
            if choice is None:
                choice = chosen(self.world.pick(replace(asked.on(made.tokens), stub=stub)))
                self.choices.add(position, choice, stub)
            token = choice.token
            made.tokens.append(token)
            stub = stub[len(TABLE[token]) :]
        return made


def fresh(world: World, asked: Asked, limit: int = LIMIT) -> list[int]:
    return Counts(world).answer(asked, limit).tokens


worlds = st.builds(World, st.integers(0, 10_000), st.booleans())
changes = st.one_of(
    st.tuples(st.just("go on"), st.integers(0, LIMIT), stubs),
    st.tuples(st.just("go on and spell"), st.integers(0, LIMIT), st.integers(0, 5)),
    st.tuples(st.just("go on otherwise"), st.integers(0, LIMIT), rows),
    st.tuples(st.just("spell more"), st.integers(1, 3)),
    st.tuples(st.just("spell less"), st.integers(1, 3)),
    st.tuples(st.just("spell"), stubs),
    st.tuples(st.just("take back"), st.integers(1, 3)),
    st.tuples(st.just("other history"), histories),
    st.tuples(st.just("other cache"), caches),
    st.tuples(st.just("other memory"), st.sampled_from(VIEWS)),
    st.tuples(st.just("other prompt"), rows),
    st.tuples(st.just("other tail"), histories),
    st.tuples(st.just("again")),
)


def changed(asked: Asked, said: list[int], name: str, *arguments: object) -> Asked:
    """The next prompt, of which nothing is known but that it is near the last one."""
    text = b"".join(TABLE[token] for token in said)
    match name, *arguments:
        case "go on", int(count), bytes(stub):
            return replace(asked.on(said[:count]), stub=stub)
        case "go on and spell", int(count), int(size):
            return replace(asked.on(said[:count]), stub=b"".join(TABLE[token] for token in said[count:])[:size])
        case "go on otherwise", int(count), tuple(row):
            return asked.on([*said[:count], *row])
        case "spell more", int(count):
            return replace(asked, stub=text[: len(asked.stub) + count])
        case "spell less", int(count):
            return replace(asked, stub=asked.stub[:-count])
        case "spell", bytes(stub):
            return replace(asked, stub=stub)
        case "take back", int(count):
            return replace(asked, row=asked.row[:-count] or asked.row)
        case "other history", tuple(before):
            return replace(asked, before=before)
        case "other cache", cache:
            return replace(asked, cache=cache)
        case "other memory", counts:
            return replace(asked, counts=counts)
        case "other prompt", tuple(row):
            return replace(asked, row=row)
        case "other tail", tuple(tail):
            return replace(asked, tail=tail)
    return asked


@settings(max_examples=400)
@given(
    world=worlds,
    start=st.builds(Asked, rows, stubs, histories, caches),
    changes=st.lists(st.tuples(changes, st.integers(0, LIMIT)), max_size=8),
)
def test_what_is_recalled_is_what_would_be_chosen_anew(
    world: World, start: Asked, changes: list[tuple[tuple[str, object], int]]
) -> None:
    counts, asked = Counts(world), start
    said = counts.answer(asked).tokens
    for change, limit in changes:
        asked = changed(asked, said, *change)
        said = counts.answer(asked, limit).tokens
        assert said == fresh(world, asked, limit)


@settings(max_examples=200)
@given(world=worlds, start=st.builds(Asked, rows, stubs, histories, caches), count=st.integers(0, LIMIT))
def test_an_answer_is_recalled_whole_behind_its_prompt_and_behind_what_was_chosen(
    world: World, start: Asked, count: int
) -> None:
    counts = Counts(world)
    said = counts.answer(start).tokens
    left = start.stub[sum(len(TABLE[token]) for token in said[:count]) :]
    made = counts.answer(replace(start.on(said[:count]), stub=left), LIMIT - count)
    assert (made.tokens, made.recalled) == (said[count:], [True] * (LIMIT - count))
    assert counts.answer(start).recalled == [True] * LIMIT, "taking it back as well"


@settings(max_examples=200)
@given(world=worlds, start=st.builds(Asked, rows, st.just(b""), histories, caches), size=st.integers(1, 9))
@example(World(0), Asked((2,)), 2)
def test_typing_into_what_was_chosen_freely_recalls_all_of_it(world: World, start: Asked, size: int) -> None:
    counts = Counts(world)
    said = counts.answer(start).tokens
    text = b""
    for token in said:
        if not TABLE[token]:
            break  # the end of a text cannot be typed
        text += TABLE[token]
    made = counts.answer(replace(start, stub=text[:size]))
    assert (made.tokens, made.recalled) == (said, [True] * LIMIT)


def test_a_shorter_stub_is_chosen_for_anew() -> None:
    for seed in range(50):
        counts = Counts(World(seed))
        counts.answer(Asked((2,), b"abc"))
        made = counts.answer(Asked((2,), b"ab"))
        assert not made.recalled[0]
        assert made.tokens == fresh(counts.world, Asked((2,), b"ab"))


def test_what_was_chosen_for_the_shorter_stub_too_keeps_what_was_chosen_after_it() -> None:
    kept = 0
    for seed in range(50):
        counts, long, short = Counts(World(seed)), Asked((2,), b"abc"), Asked((2,), b"ab")
        before = counts.answer(long)
        if fresh(counts.world, short)[0] == before.tokens[0] == TABLE.index(b"abc"):
            kept += 1
            assert counts.answer(short).recalled == [False] + [True] * (LIMIT - 1)
            assert counts.answer(short).recalled == counts.answer(long).recalled == [True] * LIMIT
    assert kept


START = Asked((2, 3), b"a", (1, -1), Ngrams((0.5,), 10.0), tail=(5,), counts=VIEWS[1])


@pytest.mark.parametrize(
    "other",
    [
        replace(START, row=(2, 4)),
        replace(START, row=(2,)),
        replace(START, row=(2, 3, 2, 2)),
        replace(START, before=(1,)),
        replace(START, before=(2, -1)),
        replace(START, before=(1, 1, -1)),
        replace(START, cache=Ngrams((0.5,), 20.0)),
        replace(START, cache=None),
        replace(START, counts=VIEWS[2]),
        replace(START, counts=VIEWS[0]),
        replace(START, tail=(4,)),
        replace(START, tail=()),
        replace(START, tail=(5, 5)),
    ],
)
def test_nothing_is_recalled_behind_another_prompt_history_cache_or_memory(other: Asked) -> None:
    counts = Counts(World(3))
    counts.answer(START)
    assert counts.choices is not None
    seen = SeenCounts.by(other.cache, other.counts)
    assert not counts.choices.apply_to(ids(other.ids), ids(other.history), seen)
    assert not counts.answer(other).recalled[0]


@pytest.mark.parametrize("same", range(LIMIT - 1))
def test_nothing_is_recalled_behind_a_prompt_that_goes_on_otherwise_somewhere(same: int) -> None:
    counts, start = Counts(World(3)), Asked((2, 3))
    said = counts.answer(start).tokens
    other = start.on([*said[:same], said[same] % 3 + 2, *said[same + 1 :]])
    assert other != start.on(said)
    assert not any(counts.answer(other, 1).recalled)


def test_a_cache_of_equal_figures_is_the_same_cache() -> None:
    counts = Counts(World(3))
    counts.answer(Asked((2,), cache=Ngrams((0.5,), 10.0)))
    assert counts.answer(Asked((2,), cache=Ngrams((0.5,), 10.0))).recalled == [True] * LIMIT


def test_nothing_is_recalled_beyond_what_was_chosen_nor_before_the_prompt() -> None:
    choices = Choices(ids([2, 3]), ids([2, 3]), SeenCounts())
    choices.add(2, four := chosen(4), b"")
    assert [choices.at(position, b"", spells) for position in range(5)] == [None, None, four, None, None]


def test_another_choice_makes_those_after_it_void() -> None:
    choices = Choices(ids([2]), ids([2]), SeenCounts())
    made = list(map(chosen, (5, 6, 7, 8)))
    for position, choice in enumerate(made[:3], 1):
        choices.add(position, choice, b"")
    choices.add(2, made[3], b"")
    assert [choices.at(position, b"", spells) for position in (1, 2, 3)] == [made[0], made[3], None]


@pytest.mark.parametrize("whole", [True, False])
def test_the_same_choice_for_a_longer_stub_takes_its_place_only_if_chances_were_of_few_tokens(whole: bool) -> None:
    choices = Choices(ids([2]), ids([2]), SeenCounts())
    first, again = (chosen(5)._replace(whole=whole) for _ in range(2))
    choices.add(1, first, b"a")
    choices.add(2, later := chosen(6), b"")
    choices.add(1, again, b"ab")
    assert choices.at(1, b"a", spells) is (first if whole else None)
    assert whole or choices.at(1, b"ab", spells) is again
    assert choices.at(2, b"", spells) is later


def test_a_token_that_ends_the_text_is_recalled_only_where_nothing_has_to_be_spelled() -> None:
    choices = Choices(ids([2]), ids([2]), SeenCounts())
    choices.add(1, end := chosen(0), b"")
    assert (choices.at(1, b"", spells), choices.at(1, b"a", spells)) == (end, None)


def test_a_memory_of_the_same_documents_is_the_same_memory() -> None:
    counts = Counts(World(3))
    counts.answer(Asked((2,), counts=view_of([1, 2], [3])))
    assert counts.answer(Asked((2,), counts=view_of([1, 2], [3]))).recalled == [True] * LIMIT
