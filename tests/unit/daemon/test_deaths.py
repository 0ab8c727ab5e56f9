"""Deaths in a row: pauses grow, and end."""

from __future__ import annotations

from efim_ls.daemon.relay import HOPELESS, LONGEST, SHORTEST, STEADY, Deaths


def test_pauses_grow_while_daemons_die_soon_whatever_they_have_said():
    deaths, pauses = Deaths(), list[float]()
    for _ in range(12):
        deaths.add(STEADY / 2)
        pauses.append(deaths.pause)
    assert pauses[:4] == [0, SHORTEST, 2 * SHORTEST, 4 * SHORTEST] and pauses[-1] == LONGEST
    assert not deaths.is_hopeless, "each served for a while"


def test_one_that_served_for_long_begins_a_new_row():
    deaths = Deaths()
    for _ in range(5):
        deaths.add(1.0)
    deaths.add(STEADY)
    assert deaths.count == 1 and deaths.pause == 0


def test_there_is_an_end_where_none_comes_to_serve():
    deaths = Deaths()
    for _ in range(HOPELESS - 1):
        deaths.add(None)
    assert not deaths.is_hopeless
    deaths.add(1.0)
    assert not deaths.is_hopeless
    for _ in range(HOPELESS):
        deaths.add(None)
    assert deaths.is_hopeless
