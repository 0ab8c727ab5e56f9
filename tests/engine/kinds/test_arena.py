"""What arenas hold is what their tokens ask for, whoever has them and whatever they held before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Dense, Full, LayerSpec
from model_runtime.engine.sampler import Choices, SeenCounts
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.layout import FP32, arena_bytes
from model_runtime.kv.pool import FrameId, Pool
from tests.engine.doubles import fetched, ids_of, key_of

CAPACITY = 48
CONFIG = ModelConfig(
    family="llama", vocab=10, hidden=8, layers=(LayerSpec(Full(4, kv_heads=2, head_dim=2), Dense(8)),) * 2,
    norm_eps=1e-5, context=CAPACITY, tied=True, end_ids=(0,),
)  # fmt: skip
TEXTS = ([1] * CAPACITY, [2] * CAPACITY, [1, 2] * (CAPACITY // 2), [1] * 24 + [3] * 24)
OWNERS = st.builds(FrameId, st.sampled_from("ab"), st.integers(0, 1))


def named(tokens: Sequence[int]) -> list[float]:
    """A number for each token that stands for it and everything before it."""
    numbers, number = list[float](), 7
    for token in tokens:
        number = (number * 31 + token + 1) % 65521
        numbers.append(float(number))
    return numbers


def compute(arena: Arena, tokens: Sequence[int]) -> None:
    """Append tokens as a decoder does: keys and values first, then their ids."""
    start, end = arena.length, arena.length + len(tokens)
    numbers = np.array(named([*arena.ids.tolist(), *tokens])[start:], dtype=np.float32)
    arena.k[:, :, start:end] = numbers[None, None, :, None]
    arena.v[:, :, start:end] = -numbers[None, None, :, None]
    arena.append(ids_of(tokens))


def logits_after(tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    return np.array([named([*tokens, 0])[-1]], dtype=np.float32)


def keep_logits(arena: Arena, at: int) -> None:
    arena.keep_logits(logits_after(arena.ids[:at].tolist()), at)


def assert_sound(arena: Arena) -> None:
    tokens = arena.ids.tolist()
    numbers = np.array(named(tokens), dtype=np.float32)[None, None, :, None]
    numbers = np.broadcast_to(numbers, (2, 2, len(tokens), 2))
    assert 0 <= arena.length == len(tokens) <= arena.capacity == CAPACITY
    assert np.array_equal(arena.k[:, :, : arena.length], numbers)
    assert np.array_equal(arena.v[:, :, : arena.length], -numbers)
    assert -1 <= arena.logits_at <= arena.length
    if arena.logits_at != -1:
        assert arena.logits is not None
        assert np.array_equal(fetched(arena.logits), logits_after(tokens[: arena.logits_at]))


def addresses(arena: Arena) -> tuple[int, int]:
    return arena.k.ctypes.data, arena.v.ctypes.data


@st.composite
def token_lists(draw: st.DrawFn) -> list[int]:
    """The beginning of one of a few texts, and perhaps something else after it."""
    beginning = draw(st.sampled_from(TEXTS))[: draw(st.integers(0, CAPACITY))]
    return [*beginning, *draw(st.lists(st.integers(0, 9), max_size=4))][:CAPACITY] or [0]


class OneArena(RuleBasedStateMachine):
    """Two arenas, the second for copies."""

    def __init__(self) -> None:
        super().__init__()
        self.arena, self.other = DenseArena(CONFIG, CAPACITY), DenseArena(CONFIG, CAPACITY)
        self.tokens: list[int] = []
        self.places = addresses(self.arena), addresses(self.other)

    @rule(tokens=st.lists(st.integers(0, 9), min_size=1, max_size=9))
    def append(self, tokens: list[int]) -> None:
        tokens = tokens[: CAPACITY - self.arena.length]
        compute(self.arena, tokens)
        self.tokens += tokens

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        length = int(share * len(self.tokens))
        kept = self.arena.logits_at if self.arena.logits_at <= length else -1
        self.arena.truncate(length)
        del self.tokens[length:]
        assert self.arena.logits_at == kept

    @precondition(lambda self: self.tokens)
    @rule(share=st.floats(0, 1))
    def keep_logits(self, share: float) -> None:
        keep_logits(self.arena, max(1, int(share * len(self.tokens))))

    @rule(share=st.floats(0, 1))
    def copy(self, share: float) -> None:
        length = int(share * len(self.tokens))
        self.other.copy_prefix(self.arena, length)
        assert self.other.ids.tolist() == self.tokens[:length]

    @precondition(lambda self: self.other.length < CAPACITY)
    @rule(token=st.integers(0, 9))
    def diverge(self, token: int) -> None:
        compute(self.other, [token])
        keep_logits(self.other, self.other.length)

    @rule()
    def exchange(self) -> None:
        self.arena, self.other = self.other, self.arena
        self.places = self.places[::-1]
        self.tokens = self.arena.ids.tolist()

    @invariant()
    def holds_what_it_was_given(self) -> None:
        assert self.arena.ids.tolist() == self.tokens
        assert_sound(self.arena)
        assert_sound(self.other)
        assert self.places == (addresses(self.arena), addresses(self.other))


class ArenaPool(RuleBasedStateMachine):
    """A pool of arenas whose owners bring them to prompts, or part of the way; `test_pool` says who gets which."""

    @initialize(size=st.integers(1, 3))
    def start(self, size: int) -> None:
        self.size = size
        self.pool = Pool(self.make, size)
        self.made: list[tuple[Arena, tuple[int, int]]] = []

    def make(self) -> Arena:
        arena = DenseArena(CONFIG, CAPACITY)
        self.made.append((arena, addresses(arena)))
        return arena

    @rule(owner=OWNERS, tokens=token_lists(), computed=st.floats(0, 1), ahead=st.booleans())
    def request(self, owner: FrameId, tokens: list[int], computed: float, ahead: bool) -> None:
        told = self.pool.reusable(owner, key_of(tokens))
        arena = self.pool.acquire(owner, key_of(tokens))
        assert told == arena.reusable(key_of(tokens))
        assert_sound(arena)
        common = arena.common(key_of(tokens))
        arena.truncate(common)
        compute(arena, tokens[common : common + round(computed * (len(tokens) - common))])
        if ahead:
            arena.rows.mark_unneeded(common)
        if arena.ids.tolist() == tokens:
            keep_logits(arena, len(tokens))

    @rule(document=st.sampled_from("ab"))
    def release(self, document: str) -> None:
        self.pool.release_document(document)

    @invariant()
    def every_arena_is_sound_and_where_it_was(self) -> None:
        assert len(self.made) <= self.size
        for arena, place in self.made:
            assert_sound(arena)
            assert addresses(arena) == place


OneArena.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
ArenaPool.TestCase.settings = settings(max_examples=80, stateful_step_count=25)
TestOneArena = OneArena.TestCase
TestArenaPool = ArenaPool.TestCase


def test_a_long_common_prefix_is_copied_and_the_arena_it_comes_from_keeps_it() -> None:
    pool = Pool(lambda: DenseArena(CONFIG, CAPACITY), 2)
    first = pool.acquire(FrameId("a"), key_of(TEXTS[0]))
    compute(first, TEXTS[0])
    second = pool.acquire(FrameId("b"), key_of(TEXTS[3]))
    assert second.ids.tolist() == [1] * 24
    assert first.ids.tolist() == TEXTS[0]
    assert_sound(second)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_copy_knows_neither_what_follows_nor_what_was_chosen(length: int) -> None:
    source, target = DenseArena(CONFIG, CAPACITY), DenseArena(CONFIG, CAPACITY)
    for arena in (source, target):
        compute(arena, [1, 2, 3, 4, 5])
        keep_logits(arena, max(1, length))
        arena.answers = Choices(ids_of([1, 2]), ids_of([1, 2]), SeenCounts())
    target.copy_prefix(source, length)
    assert (target.logits_at, target.answers) == (-1, None)
    assert source.answers is not None


def test_truncating_leaves_what_was_chosen() -> None:
    arena = DenseArena(CONFIG, CAPACITY)
    compute(arena, [1, 2, 3])
    arena.answers = chosen = Choices(ids_of([1, 2]), ids_of([1, 2]), SeenCounts())
    arena.truncate(1)
    assert arena.answers is chosen


def test_the_bytes_of_an_arena_are_those_of_its_keys_and_values() -> None:
    arena = DenseArena(CONFIG, CAPACITY)
    assert arena.k.itemsize == FP32
    assert arena_bytes(CONFIG, CAPACITY) == sum(each.nbytes for each in (arena.k, arena.v))
