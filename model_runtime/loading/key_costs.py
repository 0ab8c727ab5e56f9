"""What a typical key and a cold place take: one measure, from the milliseconds of passes on this machine.

The counts come from the embedded model and 2,980 keys: 2,080 typed into files of Python's own library, where
suggestions at least 20 % likely are shown, and 900 of the Rust session that docs/benchmarks.md replays.
"""

from __future__ import annotations

from typing import NamedTuple

# Half of the keys take no more: they are typed through a suggestion, or diverge from it by a token. The median is no
# pass in Python and 0 to 1 in Rust; the means are 1.1 and 3.2. Half of them wait for no token of the prompt.
PASSES_OF_A_KEY = 1.0
OUTSIDE_MS = 0.5  # planning, tokenizing and filters; the median key in Python takes 0.6 in all
COLD_TOKENS = 1_200  # of a prompt with nothing kept, in the default window: the mean of both
COLD_PASSES = 4.0  # of one row, to decode what follows; the median


class KeyCosts(NamedTuple):
    """Milliseconds of a typical key, and of a cold place: the first key where nothing has been computed, or None."""

    typical: float
    cold: float | None


def key_costs(pass_ms: float, row_ms: float | None) -> KeyCosts:
    """Return their milliseconds, from the milliseconds of a pass of one row and of a row of a prompt's passes."""
    cold = None if row_ms is None else COLD_TOKENS * row_ms + COLD_PASSES * pass_ms + OUTSIDE_MS
    return KeyCosts(PASSES_OF_A_KEY * pass_ms + OUTSIDE_MS, cold)


def duration(ms: float) -> str:
    """Return milliseconds for people, with two digits: `0.8 ms`, `67 ms`, `1.3 s`."""
    if round(ms) >= 1000:
        return f"{ms / 1e3:,.{int(ms < 9_950)}f} s"
    return f"{ms:.{int(ms < 9.95)}f} ms"
