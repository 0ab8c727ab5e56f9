from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.memory_shares import LEAST_COUNTS, LEAST_HELD, LEAST_MEMORY, share_out
from efim_ls.settings import DEFAULTS


def test_the_default_is_shared_out_in_the_proportions_that_users_read() -> None:
    assert share_out(DEFAULTS.memory_mib) == (128, 64, 32)


@given(st.integers(LEAST_MEMORY, 1 << 20))
def test_what_is_granted_is_used_and_not_exceeded(mib: int) -> None:
    shares = share_out(mib)
    assert sum(shares) == mib
    assert shares.arenas >= mib // 2 - 1 and shares.held >= LEAST_HELD and shares.counts >= LEAST_COUNTS


@given(st.integers(LEAST_MEMORY, 1 << 20), st.integers(1, 1 << 20))
def test_one_arena_always_has_room_and_takes_it_from_places_that_were_dropped(mib: int, arena: int) -> None:
    shares, usual = share_out(mib, arena), share_out(mib)
    assert shares.arenas == max(usual.arenas, arena)
    assert shares.counts == usual.counts
    assert shares.held == LEAST_HELD or sum(shares) == mib


@pytest.mark.parametrize(("arena", "arenas", "held"), [(10, 128, 64), (150, 150, 42), (500, 500, LEAST_HELD)])
def test_a_model_with_a_large_arena_gets_more_for_them(arena: int, arenas: int, held: int) -> None:
    assert share_out(DEFAULTS.memory_mib, arena) == (arenas, held, 32)
