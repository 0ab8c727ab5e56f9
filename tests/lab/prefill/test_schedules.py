"""Schedules of shared prefill: one device takes its own time, and more never beat their share of the work."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.costs import Link, PrefillCosts, read_costs
from efim_lab.studies.prefill.schedules import (
    Way,
    balanced_cuts,
    by_keys,
    by_latents,
    by_layers,
    by_tokens,
    even_cuts,
    even_tokens,
    uneven_tokens,
    ways,
)

ALL: list[Way] = [even_tokens, uneven_tokens, by_layers, by_keys, by_latents]
FREE = Link(math.inf, 0.0)
some_costs = st.builds(
    PrefillCosts,
    token=st.floats(1e-6, 1e-3),
    key=st.floats(0, 1e-6),
    layers=st.integers(1, 40),
    chunk=st.integers(16, 2000),
    kv_bytes=st.integers(1, 10**6),
    hidden_bytes=st.integers(1, 10**5),
    partial_bytes=st.integers(1, 10**5),
    score_bytes=st.integers(1, 10**3),
)
some_links = st.builds(Link, st.floats(0.1, 1000), st.floats(0, 0.01))
some_tokens, some_devices = st.integers(64, 5000), st.integers(1, 8)


@pytest.mark.parametrize("way", ALL)
@given(costs=some_costs, tokens=some_tokens, link=some_links)
def test_one_device_takes_its_own_time(way: Way, costs: PrefillCosts, tokens: int, link: Link) -> None:
    assert way(costs, tokens, 1, link) == pytest.approx(costs.seconds(0, tokens))


@pytest.mark.parametrize("way", ALL)
@given(costs=some_costs, tokens=some_tokens, devices=some_devices, link=some_links)
def test_devices_never_beat_their_share_of_the_work(
    way: Way, costs: PrefillCosts, tokens: int, devices: int, link: Link
) -> None:
    assert way(costs, tokens, devices, link) >= costs.seconds(0, tokens) / devices * (1 - 1e-9)


@given(costs=some_costs, tokens=some_tokens, devices=some_devices)
def test_balanced_cuts_reach_the_optimum_over_a_free_link(costs: PrefillCosts, tokens: int, devices: int) -> None:
    """But for a token, which is not divided."""
    costliest = costs.token + costs.key * tokens
    found = uneven_tokens(costs, tokens, devices, FREE)
    assert found == pytest.approx(costs.seconds(0, tokens) / devices, abs=costliest)


@given(costs=some_costs, tokens=some_tokens, devices=some_devices, link=some_links)
def test_uneven_cuts_take_no_longer_than_even_ones(
    costs: PrefillCosts, tokens: int, devices: int, link: Link
) -> None:
    assert uneven_tokens(costs, tokens, devices, link) <= even_tokens(costs, tokens, devices, link)


@pytest.mark.parametrize("way", ALL)
@given(costs=some_costs, tokens=some_tokens, devices=some_devices, link=some_links)
def test_a_faster_link_takes_no_longer(way: Way, costs: PrefillCosts, tokens: int, devices: int, link: Link) -> None:
    faster = Link(2 * link.gigabits, link.latency / 2)
    assert way(costs, tokens, devices, faster) <= way(costs, tokens, devices, link) * (1 + 1e-9)


PLAIN = PrefillCosts(token=1.0, key=0.0, layers=2, chunk=10, kv_bytes=2, hidden_bytes=1, partial_bytes=4)


def test_a_second_device_waits_for_the_first_ones_keys_of_each_layer() -> None:
    """Twenty tokens of one second; 10 tokens' keys of a layer are 10 bytes: 10 s at a byte a second.

    The link begins them when a layer begins: at 0 and at 5 s, but it is free for the second ones only at 10 s.
    """
    link = Link(8e-9, 1.0)
    assert by_tokens(PLAIN, [0, 10, 20], link) == 10 + 10 + 1 + 5


def test_a_pipeline_ends_a_chunks_layers_after_the_first_device() -> None:
    """Two chunks of ten seconds, five on each device; a chunk is on its way for 10 s and 1 s."""
    assert by_layers(PLAIN, 20, 2, FREE) == 15
    assert by_layers(PLAIN, 20, 2, Link(8e-9, 1.0)) == 5 + 10 + 10 + 1 + 5


def test_devices_without_a_layer_of_their_own_are_left_out() -> None:
    link = Link(8e-9, 1.0)
    assert by_layers(PLAIN, 20, 8, link) == by_layers(PLAIN, 20, PLAIN.layers, link)


def test_devices_that_share_keys_repeat_the_rest() -> None:
    costs = PLAIN._replace(key=0.1)
    attention = 0.1 * 20 * 20 / 2
    assert by_keys(costs, 20, 4, FREE) == pytest.approx(20 + attention / 4)
    exchanges = 2 * 2 * 6 * (1 + 10 * 4 / 4)  # chunks, layers, steps around a ring of four
    assert by_keys(costs, 20, 4, Link(8e-9, 1.0)) == pytest.approx(20 + attention / 4 + exchanges)


def test_latents_are_split_only_where_there_are_some() -> None:
    assert "latents" not in ways(PLAIN)
    assert "latents" in ways(PLAIN._replace(score_bytes=4))


def test_balanced_cuts_give_later_tokens_to_more_devices() -> None:
    costs = PLAIN._replace(token=1e-9, key=1.0)
    assert balanced_cuts(costs, 1000, 4) == [0, 500, 707, 866, 1000]
    assert even_cuts(1000, 4) == [0, 250, 500, 750, 1000]


def test_costs_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(
        '{"token": 1e-3, "key": 0, "layers": 2, "chunk": 64, "kv_bytes": 8, "hidden_bytes": 4, "partial_bytes": 4}'
    )
    assert read_costs(path) == PrefillCosts(1e-3, 0.0, 2, 64, 8, 4, 4)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tokens": 1}'])
def test_what_holds_no_costs_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(WorkError, match="write a JSON object with token, key"):
        read_costs(path)


def test_costs_below_their_least_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(
        '{"token": 0, "key": 0, "layers": 2, "chunk": 64, "kv_bytes": 8, "hidden_bytes": 4, "partial_bytes": 4}'
    )
    with pytest.raises(WorkError, match="a cost that is none"):
        read_costs(path)
