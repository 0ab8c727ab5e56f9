"""The radix cache of the baselines: reuses what any kept prompt began with, within its bound."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.replay.radix_cache import RadixCache
from model_runtime.ids import Ids, common_prefix

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=30)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


def test_beginnings_are_reused_whichever_prompt_left_them() -> None:
    cache = RadixCache(100)
    assert cache.prefill(ids(1, 2, 3, 4)) == 4
    assert cache.prefill(ids(1, 2, 5, 6)) == 2
    assert cache.prefill(ids(1, 2, 3, 4, 7)) == 1
    assert cache.prefill(ids(1, 2, 5, 8)) == 1
    assert cache.tokens == 8


def test_a_prompt_that_is_known_whole_costs_its_last_token() -> None:
    cache = RadixCache(100)
    cache.prefill(ids(1, 2, 3, 4))
    assert [cache.prefill(ids(1, 2, 3, 4)), cache.prefill(ids(1, 2))] == [1, 1]
    assert cache.tokens == 4


def test_what_was_used_longest_ago_is_evicted_first() -> None:
    cache = RadixCache(6)
    for prompt in (ids(1, 1, 1), ids(2, 2, 2), ids(1, 1, 1), ids(3, 3, 3)):
        cache.prefill(prompt)
    assert cache.tokens == 6
    assert cache.prefill(ids(1, 1, 1)) == 1
    assert cache.prefill(ids(2, 2, 2)) == 3


def test_a_prompt_larger_than_the_bound_is_kept_until_the_next() -> None:
    cache = RadixCache(2)
    cache.prefill(ids(1, 2, 3, 4))
    assert cache.prefill(ids(1, 2, 3, 4)) == 1
    assert cache.prefill(ids(5)) == 1
    assert cache.tokens == 1


@given(PROMPTS)
def test_without_eviction_a_prompt_costs_what_no_earlier_one_began_with(prompts: list[list[int]]) -> None:
    cache, seen = RadixCache(1_000), list[Ids]()
    for prompt in map(np.array, prompts):
        known = max((common_prefix(each, prompt) for each in seen), default=0)
        assert cache.prefill(prompt) == max(len(prompt) - known, 1)
        seen.append(prompt)


@given(PROMPTS, st.integers(1, 20))
def test_the_bound_is_kept(prompts: list[list[int]], capacity: int) -> None:
    cache = RadixCache(capacity)
    for prompt in map(np.array, prompts):
        cache.prefill(prompt)
        assert cache.tokens <= max(capacity, len(prompt))
