"""What arenas hold is what their tokens ask for, whoever has them and whatever they held before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from model_runtime.arena import WORTH_COPYING, Arena, ArenaPool
from model_runtime.config import ModelConfig
from model_runtime.ids import common_prefix
from tests.engine.doubles import ids_of

CAPACITY = 48
CONFIG = ModelConfig(
    family="llama", vocab=10, hidden=8, layers=2, heads=4, kv_heads=2, head_dim=2, intermediate=8,
    norm_eps=1e-5, rope_theta=1e4, context=CAPACITY, tied=True, end_ids=(0,),
)  # fmt: skip
TEXTS = ([1] * CAPACITY, [2] * CAPACITY, [1, 2] * (CAPACITY // 2), [1] * 24 + [3] * 24)
OWNERS = st.sampled_from("abcd")


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
    numbers = torch.tensor(named([*arena.ids.tolist(), *tokens])[start:])
    arena.k[:, :, start:end] = numbers[None, None, :, None]
    arena.v[:, :, start:end] = -numbers[None, None, :, None]
    arena.append(ids_of(tokens))


def logits_after(tokens: Sequence[int]) -> torch.Tensor:
    return torch.tensor([named([*tokens, 0])[-1]])


def assert_sound(arena: Arena) -> None:
    tokens = arena.ids.tolist()
    numbers = torch.tensor(named(tokens))[None, None, :, None].expand(2, 2, -1, 2)
    assert 0 <= arena.length == len(tokens) <= arena.capacity == CAPACITY
    assert torch.equal(arena.k[:, :, : arena.length], numbers)
    assert torch.equal(arena.v[:, :, : arena.length], -numbers)
    assert (arena.logits is None) == (arena.logits_at == -1)
    if arena.logits is not None:
        assert arena.logits_at <= arena.length
        assert torch.equal(arena.logits, logits_after(tokens[: arena.logits_at]))


def addresses(arena: Arena) -> tuple[int, int]:
    return arena.k.data_ptr(), arena.v.data_ptr()


@st.composite
def token_lists(draw: st.DrawFn) -> list[int]:
    """The beginning of one of a few texts, and perhaps something else after it."""
    beginning = draw(st.sampled_from(TEXTS))[: draw(st.integers(0, CAPACITY))]
    return [*beginning, *draw(st.lists(st.integers(0, 9), max_size=4))][:CAPACITY]


class OneArena(RuleBasedStateMachine):
    """Two arenas, the second for copies."""

    def __init__(self) -> None:
        super().__init__()
        self.arena, self.other = Arena(CONFIG, CAPACITY), Arena(CONFIG, CAPACITY)
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

    @rule()
    def keep_logits(self) -> None:
        self.arena.keep_logits(logits_after(self.tokens))
        assert self.arena.logits_at == len(self.tokens)

    @rule(tokens=token_lists())
    def common(self, tokens: list[int]) -> None:
        assert self.arena.common(ids_of(tokens)) == longest_common(tokens, self.tokens)

    @rule(share=st.floats(0, 1))
    def copy(self, share: float) -> None:
        length = int(share * len(self.tokens))
        self.other.copy_prefix(self.arena, length)
        assert self.other.ids.tolist() == self.tokens[:length]

    @precondition(lambda self: self.other.length < CAPACITY)
    @rule(token=st.integers(0, 9))
    def diverge(self, token: int) -> None:
        compute(self.other, [token])
        self.other.keep_logits(logits_after(self.other.ids.tolist()))

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


class Pool(RuleBasedStateMachine):
    """A pool, and who has which arena by the rules: least recently used first."""

    @initialize(size=st.integers(1, 3))
    def start(self, size: int) -> None:
        self.size = size
        self.pool = ArenaPool(CONFIG, CAPACITY, size)
        self.owned: dict[str, Arena] = {}
        self.seen: dict[int, tuple[Arena, tuple[int, int]]] = {}

    @rule(owner=OWNERS, tokens=token_lists().filter(len), computed=st.floats(0, 1))
    def request(self, owner: str, tokens: list[int], computed: float) -> None:
        """Take an arena and bring it to the tokens, or only part of the way, as a stopped request does."""
        ids = ids_of(tokens)
        before = {name: arena.ids.tolist() for name, arena in self.owned.items()}
        told = self.pool.reusable(owner, ids)
        found = max((longest_common(tokens, held) for held in before.values()), default=0)
        assert {name: arena.ids.tolist() for name, arena in self.owned.items()} == before

        arena = self.pool.take(owner, ids)
        self.check_whose(owner, arena)
        assert found - WORTH_COPYING < arena.common(ids) <= found
        assert told == arena.reusable(ids)
        for name, other in self.owned.items():
            assert other is arena or other.ids.tolist() == before[name]
        assert_sound(arena)
        self.bring_to(arena, tokens, computed)

    def check_whose(self, owner: str, arena: Arena) -> None:
        if owner in self.owned:
            expected = self.owned.pop(owner)
        elif len(self.owned) == self.size:
            expected = self.owned.pop(next(iter(self.owned)))
        else:
            expected = arena
            assert id(arena) not in self.seen
            self.seen[id(arena)] = arena, addresses(arena)
        assert arena is expected
        self.owned[owner] = arena

    def bring_to(self, arena: Arena, tokens: list[int], computed: float) -> None:
        common = arena.common(ids_of(tokens))
        arena.truncate(common)
        compute(arena, tokens[common : common + round(computed * (len(tokens) - common))])
        if arena.ids.tolist() == tokens:
            arena.keep_logits(logits_after(tokens))

    @rule(owner=OWNERS)
    def release(self, owner: str) -> None:
        self.pool.release(owner)
        if owner in self.owned:
            self.owned = {owner: self.owned.pop(owner), **self.owned}

    @invariant()
    def never_has_more_arenas_than_its_size(self) -> None:
        assert len(self.seen) <= self.size

    @invariant()
    def every_arena_is_sound_and_where_it_was(self) -> None:
        for arena, place in self.seen.values():
            assert_sound(arena)
            assert addresses(arena) == place


def longest_common(a: Sequence[int], b: Sequence[int]) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


OneArena.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
Pool.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestOneArena = OneArena.TestCase
TestPool = Pool.TestCase


def test_common_prefix_is_the_number_of_equal_tokens_at_the_start() -> None:
    for a, b, expected in (([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 5, 3], 1)):
        assert common_prefix(ids_of(a), ids_of(b)) == common_prefix(ids_of(b), ids_of(a)) == expected


def test_an_owner_gets_its_own_arena_again_with_what_it_computed() -> None:
    pool = ArenaPool(CONFIG, CAPACITY, 2)
    arena = pool.take("a", ids_of([1, 2]))
    compute(arena, [1, 2])
    pool.take("b", ids_of([3]))
    assert pool.take("a", ids_of([1, 2, 3])) is arena
    assert arena.ids.tolist() == [1, 2]


def test_a_long_common_prefix_is_copied_and_the_arena_it_comes_from_keeps_it() -> None:
    pool = ArenaPool(CONFIG, CAPACITY, 2)
    first = pool.take("a", ids_of(TEXTS[0]))
    compute(first, TEXTS[0])
    second = pool.take("b", ids_of(TEXTS[3]))
    assert second.ids.tolist() == [1] * 24
    assert first.ids.tolist() == TEXTS[0]
    assert_sound(second)


def test_an_arena_that_changes_hands_keeps_what_its_new_owner_can_use() -> None:
    pool = ArenaPool(CONFIG, CAPACITY, 1)
    arena = pool.take("a", ids_of(TEXTS[0]))
    compute(arena, [1] * 5)
    assert pool.take("b", ids_of([1, 1, 2])) is arena
    assert arena.common(ids_of([1, 1, 2])) == 2


def test_releasing_an_unknown_owner_does_nothing() -> None:
    pool = ArenaPool(CONFIG, CAPACITY, 1)
    pool.release("a")
    assert pool.reusable("a", ids_of([1])) == 0
