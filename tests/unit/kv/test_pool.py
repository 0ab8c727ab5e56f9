"""Who has which arena, without tensors: least recently used first, what is common is copied, promises are kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from model_runtime.ids import Ids
from model_runtime.kv.pool import MIN_COPIED, FrameId, Pool
from model_runtime.kv.sequence import TokenSequence
from model_runtime.sequence_key import SequenceKey

CAPACITY = 48
TEXTS = ([1] * CAPACITY, [2] * CAPACITY, [1, 2] * (CAPACITY // 2), [1] * 24 + [3] * 24)
DOCUMENTS = st.sampled_from("abc")
OWNERS = st.builds(FrameId, DOCUMENTS, st.integers(0, 2))
A, B, C = FrameId("a"), FrameId("b"), FrameId("c")


def ids(tokens: list[int]) -> Ids:
    return np.array(tokens, dtype=np.int32)


def key(tokens: list[int]) -> SequenceKey:
    return SequenceKey(ids(tokens))


@st.composite
def prompts(draw: st.DrawFn) -> list[int]:
    """The beginning of one of a few texts, and perhaps something else after it."""
    beginning = draw(st.sampled_from(TEXTS))[: draw(st.integers(0, CAPACITY))]
    return [*beginning, *draw(st.lists(st.integers(0, 9), max_size=4))][:CAPACITY] or [0]


class Lending(RuleBasedStateMachine):
    """A pool, and who should have which arena: the first one that was released, a new one, or the oldest."""

    @initialize(size=st.integers(1, 4), memory=st.integers(1, 6))
    def start(self, size: int, memory: int) -> None:
        self.size, self.memory, self.most = size, memory, size
        self.made: list[TokenSequence] = []
        self.pool = Pool(self.make, size)
        self.owned: dict[FrameId, TokenSequence] = {}
        self.released: list[FrameId] = []
        self.prefetched = 0

    def make(self) -> TokenSequence:
        if len(self.made) == self.memory:
            raise MemoryError
        self.made.append(TokenSequence(CAPACITY))
        return self.made[-1]

    @rule(owner=OWNERS, prompt=prompts(), computed=st.floats(0, 1), ahead=st.booleans())
    def request(self, owner: FrameId, prompt: list[int], computed: float, ahead: bool) -> None:
        """Take an arena and bring it to the prompt, or only part of the way, as a stopped request does."""
        before, size = self.contents(), self.pool.size
        told = self.pool.reusable(owner, key(prompt))
        assert self.contents() == before, "asking changes nothing"

        arena = self.pool.acquire(owner, key(prompt))
        self.check_whose(owner, arena)
        found = max((longest_common(prompt, held) for held in before.values()), default=0)
        assert found - MIN_COPIED < arena.common(key(prompt)) <= found
        assert told == arena.reusable(key(prompt)) or self.pool.size < size, "nobody knew that memory was at its end"
        assert all(each is arena or each.ids.tolist() == before[id(each)] for each in self.made)
        self.bring_to(arena, prompt, computed, ahead)

    def check_whose(self, owner: FrameId, arena: TokenSequence) -> None:
        if owner in self.owned:
            loser = owner
        elif self.released:
            loser = self.released[0]
        else:
            is_full = len(self.owned) == min(self.size, self.memory)
            loser = next(iter(self.owned)) if is_full else None
        if loser is None:
            assert all(arena is not each for each in self.owned.values())
        else:
            assert arena is self.owned.pop(loser)
        self.released = [each for each in self.released if each != loser]
        self.owned[owner] = arena

    def bring_to(self, arena: TokenSequence, prompt: list[int], computed: float, ahead: bool) -> None:
        common = arena.common(key(prompt))
        if not ahead:
            arena.rows.mark_needed(common)
        arena.truncate(common)
        new = prompt[common : common + round(computed * (len(prompt) - common))]
        arena.append(ids(new))
        if ahead:
            arena.rows.mark_unneeded(common)
            self.prefetched += len(new)
        if arena.ids.tolist() == prompt:
            arena.logits_at = arena.length

    @rule(document=DOCUMENTS)
    def release(self, document: str) -> None:
        self.pool.release_document(document)
        self.released += [o for o in self.owned if o.document == document and o not in self.released]

    @rule(kept=OWNERS)
    def give_back(self, kept: FrameId) -> None:
        before = self.contents()
        self.pool.give_back(0, kept)
        self.released += [owner for owner in self.owned if owner != kept and owner not in self.released]
        for owner, arena in self.owned.items():
            assert arena.ids.tolist() == (before[id(arena)] if owner == kept else [])

    @rule(count=st.integers(0, 6))
    def provide(self, count: int) -> None:
        assert min(count, self.size, self.memory) <= self.pool.provide(count) <= min(len(self.made), self.size)

    @rule(size=st.integers(1, 4))
    def resize(self, size: int) -> None:
        """Those that are too many are emptied: of nobody first, then as they would have been reused."""
        before, self.size = self.contents(), size
        self.most = max(self.most, size)
        self.pool.resize(size)
        order = [*self.released, *(owner for owner in self.owned if owner not in self.released)]
        for owner in order[: max(0, len(order) - size)]:
            assert self.owned.pop(owner).length == 0
            self.released = [each for each in self.released if each != owner]
        assert all(arena.ids.tolist() == before[id(arena)] for arena in self.owned.values())

    def contents(self) -> dict[int, list[int]]:
        return {id(each): each.ids.tolist() for each in self.made}

    @invariant()
    def never_makes_more_arenas_than_its_size(self) -> None:
        assert len(self.owned) <= self.size and len(self.made) <= self.most

    @invariant()
    def tells_what_was_wasted_in_all_arenas(self) -> None:
        assert self.pool.wasted == sum(each.rows.wasted for each in self.made) <= self.prefetched


def longest_common(a: list[int], b: list[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


Lending.TestCase.settings = settings(max_examples=80, stateful_step_count=25)
TestLending = Lending.TestCase


def pool_of(size: int) -> Pool[TokenSequence]:
    return Pool(lambda: TokenSequence(CAPACITY), size)


def fill(pool: Pool[TokenSequence], owner: FrameId, tokens: list[int]) -> TokenSequence:
    arena = pool.acquire(owner, key(tokens))
    arena.truncate(arena.common(key(tokens)))
    arena.append(ids(tokens[arena.length :]))
    return arena


def test_an_owner_gets_its_own_arena_again_with_what_it_computed() -> None:
    pool = pool_of(2)
    arena = fill(pool, A, [1, 2])
    fill(pool, B, [3])
    assert pool.acquire(A, key([1, 2, 3])) is arena
    assert arena.ids.tolist() == [1, 2]


def test_arenas_that_were_acquired_lately_are_not_given_back() -> None:
    pool = pool_of(2)
    arena = fill(pool, A, [1, 2])
    fill(pool, B, [3])
    pool.give_back(3600, B)
    assert pool.acquire(A, key([1, 2])) is arena
    assert arena.ids.tolist() == [1, 2]


def test_each_frame_of_a_document_has_an_arena_of_its_own() -> None:
    pool = pool_of(3)
    frames = [fill(pool, FrameId("a", n), [n]) for n in range(3)]
    assert len(set(map(id, frames))) == 3
    for n, arena in enumerate(frames):
        assert pool.acquire(FrameId("a", n), key([n])) is arena


@pytest.mark.parametrize("copied", [MIN_COPIED - 1, MIN_COPIED])
def test_a_common_prefix_is_copied_where_that_saves_enough(copied: int) -> None:
    pool = pool_of(2)
    first = fill(pool, A, [1] * 40)
    prompt = [1] * copied + [2] * 9
    second = pool.acquire(B, key(prompt))
    assert second.ids.tolist() == ([1] * copied if copied == MIN_COPIED else [])
    assert first.ids.tolist() == [1] * 40


def test_an_arena_that_holds_most_of_a_prompt_itself_keeps_what_it_has() -> None:
    pool = pool_of(2)
    fill(pool, A, [1] * 40)
    mine = fill(pool, B, [1] * 30 + [2])
    assert pool.acquire(B, key([1] * 40)) is mine
    assert mine.ids.tolist() == [1] * 30 + [2]


def test_a_copy_has_all_but_what_follows_its_last_token() -> None:
    pool = pool_of(2)
    fill(pool, A, [1] * 40).logits_at = 40
    assert pool.reusable(B, key([1] * 40)) == 39
    assert pool.acquire(B, key([1] * 40)).reusable(key([1] * 40)) == 39


def test_an_arena_that_changes_hands_keeps_what_its_new_owner_can_use() -> None:
    pool = pool_of(1)
    arena = fill(pool, A, [1] * 5)
    assert pool.reusable(B, key([1, 1, 2])) == 2
    assert pool.acquire(B, key([1, 1, 2])) is arena
    assert arena.common(key([1, 1, 2])) == 2


def test_what_was_computed_ahead_counts_for_its_owner_until_a_copy_takes_its_place() -> None:
    pool = pool_of(2)
    fill(pool, A, [1] * 40)
    fill(pool, B, [1] * 10).rows.mark_unneeded(4)
    assert pool.ahead(B, key([1] * 8 + [2])) == 4
    assert pool.ahead(B, key([1] * 40)) == 0, "A's is copied"
    assert pool.ahead(A, key([1] * 40)) == 0


class Snapshots(TokenSequence):
    """A sequence whose state is kept after every 16th token, and after the last one."""

    def resumes_at(self, length: int) -> int:
        return length if length == self.length else length // 16 * 16


@pytest.mark.parametrize(("length", "resumed"), [(40, 40), (39, 32), (32, 32), (15, 0)])
def test_a_truncation_ends_where_computing_can_go_on(length: int, resumed: int) -> None:
    arena = Snapshots(CAPACITY)
    arena.append(ids([1] * 40))
    arena.logits_at = length
    assert arena.resumes_at(length) == resumed
    assert (arena.length, arena.logits_at) == (40, length)
    assert arena.truncate(length) == arena.length == resumed
    assert arena.logits_at == (length if length == resumed else -1)


@pytest.mark.parametrize(
    ("prompt", "reused"),
    [([1] * 40 + [2], 40), ([1] * 35 + [2], 32), ([1] * 33, 32), ([1] * 32, 16), ([1] * 15 + [2], 0)],
)
def test_what_is_reusable_ends_where_computing_can_go_on(prompt: list[int], reused: int) -> None:
    pool = Pool(lambda: Snapshots(CAPACITY), 2)
    arena = pool.acquire(A, key(prompt))
    arena.append(ids([1] * 40))
    arena.rows.mark_unneeded(0)
    kept = arena.kept(key(prompt))
    assert pool.reusable(A, key(prompt)) == arena.reusable(key(prompt)) == reused <= kept
    assert pool.ahead(A, key(prompt)) == kept
    assert pool.reusable(B, key(prompt)) == reused
    assert pool.acquire(B, key(prompt)).length == kept


def test_a_copy_must_save_enough_of_where_computing_can_go_on() -> None:
    pool = Pool(lambda: Snapshots(CAPACITY), 2)
    pool.acquire(A, key([1])).append(ids([1] * 40))
    mine = pool.acquire(B, key([1]))
    mine.truncate(0)
    mine.append(ids([1] * 17))
    assert pool.acquire(B, key([1] * 35 + [2])) is mine
    assert mine.length == 17, "the other has 18 tokens more of the prompt, of which 15 can be copied"


def test_a_copy_saves_what_computing_would_have_to_go_back_for() -> None:
    pool, prompt = Pool(lambda: Snapshots(CAPACITY), 2), [1] * 39 + [3] * 9
    pool.acquire(A, key(prompt)).append(ids(prompt))
    mine = pool.acquire(B, key([1]))
    mine.truncate(0)
    mine.append(ids([1] * 40))
    assert pool.acquire(B, key(prompt)) is mine
    assert mine.ids.tolist() == prompt, "it had 39 tokens of the prompt, but computing could go on after 32"


def test_the_frame_used_longest_ago_loses_its_arena() -> None:
    pool = pool_of(3)
    arenas = {owner: fill(pool, owner, [n]) for n, owner in enumerate((A, B, C))}
    pool.acquire(A, key([0]))
    assert pool.acquire(FrameId("d"), key([7])) is arenas[B]
    assert pool.acquire(A, key([0])) is arenas[A]


def test_asking_what_is_reusable_is_no_use() -> None:
    pool = pool_of(2)
    first = fill(pool, A, [1])
    fill(pool, B, [2])
    pool.reusable(A, key([1]))
    assert pool.acquire(C, key([3])) is first


def test_all_frames_of_a_released_document_go_before_any_other() -> None:
    pool = pool_of(4)
    kept = fill(pool, B, [9])
    frames = [fill(pool, FrameId("a", n), [n]) for n in range(3)]
    pool.release_document("a")
    taken = [pool.acquire(FrameId("d", n), key([8])) for n in range(3)]
    assert set(map(id, taken)) == set(map(id, frames))
    assert pool.acquire(B, key([9])) is kept


def test_what_a_released_document_computed_stays_usable() -> None:
    pool = pool_of(2)
    arena = fill(pool, A, [1] * 20)
    pool.release_document("a")
    assert pool.reusable(A, key([1] * 25)) == 20
    assert pool.reusable(B, key([1] * 25)) == 20
    assert pool.acquire(A, key([1] * 25)) is arena


def test_a_released_document_that_is_used_again_keeps_its_arena() -> None:
    pool = pool_of(2)
    arena, other = fill(pool, A, [1]), fill(pool, B, [2])
    pool.release_document("a")
    pool.acquire(A, key([1]))
    assert pool.acquire(C, key([3])) is other
    assert pool.acquire(A, key([1])) is arena


def test_releasing_an_unknown_document_does_nothing() -> None:
    pool = pool_of(1)
    pool.release_document("a")
    assert (pool.reusable(A, key([1])), pool.wasted) == (0, 0)


def test_a_released_arena_is_reused_before_another_is_made() -> None:
    pool = pool_of(3)
    arena = fill(pool, A, [1])
    pool.release_document("a")
    assert pool.acquire(B, key([2])) is arena
    assert pool.provide(0) == 1


def test_without_memory_for_another_arena_the_oldest_is_reused(caplog: pytest.LogCaptureFixture) -> None:
    made = list[TokenSequence]()

    def make() -> TokenSequence:
        if len(made) == 2:
            raise MemoryError
        made.append(TokenSequence(CAPACITY))
        return made[-1]

    pool = Pool(make, 9)
    first, second = fill(pool, A, [1]), fill(pool, B, [2])
    assert pool.acquire(C, key([3])) is first and pool.acquire(A, key([1])) is second
    assert pool.provide(9) == 2
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "lower memory_mib or end other programs"
    ]


def test_arenas_beyond_a_smaller_size_are_used_again_once_it_grows() -> None:
    made = list[TokenSequence]()

    def make() -> TokenSequence:
        made.append(TokenSequence(CAPACITY))
        return made[-1]

    pool = Pool(make, 3)
    kept = [fill(pool, owner, [n]) for n, owner in enumerate((A, B, C))][-1]
    pool.resize(1)
    assert (pool.get(A), pool.get(B), pool.get(C)) == (None, None, kept)
    pool.resize(3)
    assert [fill(pool, owner, [7]).ids.tolist() for owner in (A, B)] == [[7], [7]]
    assert (pool.get(C), len(made)) == (kept, 3)


def test_without_memory_for_any_arena_the_caller_is_told() -> None:
    def make() -> TokenSequence:
        raise MemoryError

    with pytest.raises(MemoryError):
        Pool(make, 2).acquire(A, key([1]))


def test_waste_is_told_on_after_an_arena_changed_hands() -> None:
    pool, told = pool_of(1), [0]
    for n, owner in enumerate((A, B, C)):
        arena = fill(pool, owner, [n] * (n + 1))
        arena.rows.mark_unneeded(0)
        told.append(pool.wasted)
    assert [b - a for a, b in pairwise(told)] == [0, 1, 2]


def test_arenas_that_hold_tokens_are_told_the_most_recently_used_first() -> None:
    pool = pool_of(3)
    first, second = fill(pool, A, [1]), fill(pool, B, [2])
    pool.acquire(C, key([3]))  # and computes nothing
    assert pool.arenas == [second, first]
    assert pool.acquire(A, key([1])) is first
    assert pool.arenas == [first, second]


def test_arenas_that_are_given_back_are_the_next_to_change_hands() -> None:
    pool = Pool(lambda: TokenSequence(CAPACITY), 3)
    frame, fork, other = (pool.acquire(owner, key([n])) for n, owner in enumerate((A, FrameId("a", -1), B)))
    pool.release([FrameId("a", -1), FrameId("unknown")])
    assert pool.acquire(C, key([9])) is fork
    assert (pool.get(A), pool.get(B)) == (frame, other)
