"""The one measure of a key, and how it is told."""

from __future__ import annotations

import pytest

from model_runtime.loading.pass_times import COLD_PASSES, COLD_TOKENS, OUTSIDE_MS, duration, key_costs


def test_a_typical_key_is_a_pass_and_a_cold_place_a_whole_prompt() -> None:
    assert key_costs(2.0, 0.25) == (2.0 + OUTSIDE_MS, COLD_TOKENS * 0.25 + COLD_PASSES * 2.0 + OUTSIDE_MS)
    assert key_costs(2.0, None) == (2.0 + OUTSIDE_MS, None)


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0.04, "0.0 ms"), (0.84, "0.8 ms"), (9.94, "9.9 ms"), (9.96, "10 ms"), (67.2, "67 ms"), (999.4, "999 ms"),
        (999.6, "1.0 s"), (1_340.0, "1.3 s"), (9_940.0, "9.9 s"), (9_960.0, "10 s"), (1_234_567.0, "1,235 s"),
    ],
)  # fmt: skip
def test_durations_have_two_digits_or_more(ms: float, told: str) -> None:
    assert duration(ms) == told
