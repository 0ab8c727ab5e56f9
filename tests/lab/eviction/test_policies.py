"""What tiers of a few blocks keep, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from efim_lab.studies.eviction.command import common_blocks, cost_by_depth, replay
from efim_lab.studies.eviction.history import Touch
from efim_lab.studies.eviction.policies import KINDS, Farthest, Gdsf, Lru, ReturnTtl
from efim_lab.studies.eviction.tiers import RankedTier, SegmentedTier, SimulatedTier
from kv_store.block import Name

DAY = 24 * 3600


def names(*each: str) -> list[Name]:
    return [name.encode() for name in each]


A, B, C = names("a1", "a2"), names("b1", "b2"), names("c1", "c2")


def used(tier: SimulatedTier, *chains: Sequence[Name]) -> SimulatedTier:
    """The tier, after each chain was used whole, a second after the one before."""
    for now, chain in enumerate(chains, start=1):
        tier.use(chain, range(len(chain)), now)
    return tier


def read(tier: SimulatedTier, *chains: Sequence[Name]) -> list[int]:
    return [tier.read(chain) for chain in chains]


def test_a_server_that_is_told_roots_first_loses_a_chain_by_its_root() -> None:
    first = used(RankedTier(3, Lru(roots_last=False)), A, B)
    last = used(RankedTier(3, Lru(roots_last=True)), A, B)
    assert read(first, A, B) == [0, 2]  # a2 is there, for nothing
    assert read(last, A, B) == [1, 2]


def test_the_least_recently_used_goes() -> None:
    assert read(used(RankedTier(4, Lru(roots_last=True)), A, B, A, C), A, B, C) == [2, 0, 2]


def test_old_blocks_go_as_if_they_were_unused_for_long() -> None:
    edited = names("b1", "b3")
    for unused, kept in ((0, [1, 2, 2]), (9, [2, 1, 2])):
        tier = used(RankedTier(4, Lru(roots_last=True, old_unused=unused)), A, B)
        tier.use(B, range(1, 2), 3, is_old=True)
        tier.use(edited, range(1, 2), 3)
        assert read(tier, A, B, edited) == kept


def test_a_costly_block_outlives_a_cheap_one_until_the_clock_has_passed_it() -> None:
    tier = RankedTier(2, Gdsf(lambda depth: 3.0 if depth else 1.0))
    used(tier, A)  # ranks 1 and 3
    used(tier, names("b1"), names("c1"), names("d1"))  # with 1, 2 and 2: a1, b1 and c1 go, and the clock is 2
    assert read(tier, names("a2"), names("d1")) == [1, 1]
    used(tier, names("e1"), names("f1"))  # with 3 and 3: d1 and a2 go
    assert read(tier, names("a2"), names("e1"), names("f1")) == [0, 1, 1]


def test_segments_keep_what_was_read_twice_and_no_child_without_its_parent() -> None:
    tier = used(SegmentedTier(4), A)
    assert tier.read(A) == 2
    used(tier, B, C)
    assert read(tier, A, B, C) == [2, 0, 2]


def test_blocks_that_return_expire_later_than_those_that_never_did() -> None:
    policy = ReturnTtl(lambda depth: 1.0, capacity=20)
    for day in range(200):
        policy.rank(b"again", 0, day * DAY, is_old=False)
        policy.rank(b"never %d" % day, 0, day * DAY, is_old=False)
    seconds = {each.kind: each.seconds for each in policy.lifetimes() if each.depth == 0}
    assert tuple(seconds) == KINDS
    assert seconds["used again"] >= DAY > seconds["new"]


def test_a_tier_with_more_room_keeps_blocks_longer() -> None:
    small, large = (ReturnTtl(lambda depth: 1.0, capacity) for capacity in (2, 2000))
    for policy in (small, large):
        for day in range(300):
            policy.rank(b"%d" % (day * day % 50), 0, day * DAY, is_old=False)
    seconds = [sum(each.seconds for each in policy.lifetimes()) for policy in (small, large)]
    assert seconds[0] < seconds[1]


def test_what_is_read_farthest_in_the_future_goes() -> None:
    touches = [Touch(1, A, A), Touch(2, B, B), Touch(3, C, C), Touch(4, B, B), Touch(5, A, A)]
    tier = used(RankedTier(4, Farthest(touches)), A, B, C)
    assert read(tier, A, B, C) == [2, 2, 0]  # C is never read again
    assert read(used(RankedTier(2, Farthest(touches)), A, B, C), A, B, C) == [0, 2, 0]


def test_a_history_saves_what_it_reads_and_the_tier_has() -> None:
    """Three reads of two blocks, which cost 1.5 and 2.5; the second finds the root alone, the third nothing."""
    after = names("a1", "a3")
    touches = [Touch(1, (), A), Touch(2, A, after), Touch(3, after, after), Touch(4, B, B)]
    cost = cost_by_depth(16)
    assert [cost(0), cost(1)] == [1.5, 2.5]
    hits, saved = replay(touches, RankedTier(9, Lru(roots_last=True)), cost)
    assert (hits, saved) == (4 / 6, pytest.approx(8 / 12))
    hits, saved = replay(touches, RankedTier(1, Lru(roots_last=True)), cost)
    assert hits < 4 / 6


def test_a_change_makes_the_blocks_old_that_it_replaces() -> None:
    touches = [Touch(1, (), A), Touch(2, (), B), Touch(3, B, names("b1", "b3")), Touch(4, A, A)]
    tier = RankedTier(4, Lru(roots_last=True, old_unused=9))
    assert replay(touches, tier, cost_by_depth(100)) == (1.0, 1.0)


@pytest.mark.parametrize(("one", "other", "count"), [(A, A, 2), (A, B, 0), (A, names("a1", "a3"), 1), (A, [], 0)])
def test_blocks_are_common_up_to_the_first_that_differs(
    one: Sequence[Name], other: Sequence[Name], count: int
) -> None:
    assert common_blocks(one, other) == count
