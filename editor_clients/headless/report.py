"""What a replay found: one row a keystroke, summed up as figures for programs and as a table for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

from rich.console import Console
from rich.table import Table

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
MILLISECONDS = {"ttft_ms": "ms to the first new token", "total_ms": "ms to the whole answer"}


class Row(NamedTuple):
    """One keystroke: its prompt's tokens, those that went through the model again, times where a model ran.

    Nobody waited for a `background` row, recomputed ahead of need; a `reanchored` one built a new frame.
    """

    prompt_tokens: int
    recomputed: int
    background: bool
    reanchored: bool
    ttft_ms: float | None
    total_ms: float | None


def summary(policy: str, rows: Sequence[Row]) -> dict[str, object]:
    """The figures of at least one row; a background row counts as nothing recomputed in the foreground."""
    prompt = sum(row.prompt_tokens for row in rows)
    recomputed = [row.recomputed for row in rows]
    figures: dict[str, object] = {
        "policy": policy,
        "keystrokes": len(rows),
        "prompt_tokens_mean": prompt / len(rows),
        "recomputed": _spread(recomputed),
        "foreground": _spread([0 if row.background else row.recomputed for row in rows]),
        "reuse": 1 - sum(recomputed) / prompt if prompt else 0.0,
        "reanchors": sum(row.reanchored for row in rows),
    }
    times = {name: [getattr(row, name) for row in rows] for name in MILLISECONDS}
    measured = {name: [time for time in column if time is not None] for name, column in times.items()}
    return figures | {name: _middle_and_tail(column) for name, column in measured.items() if column}


def show(figures: dict[str, object]) -> None:
    """Print the figures of `summary` as a table that fits 80 columns."""
    title = f"{figures['policy']}: {figures['keystrokes']:,} keystrokes, {figures['reanchors']:,} re-anchors"
    result = Table(title=title, caption=f"{figures['reuse']:.1%} of the prompts' tokens reused")
    result.add_column("per keystroke")
    for name in ("mean", *PERCENTILES, "max"):
        result.add_column(name, justify="right")
    result.add_row("prompt tokens", f"{figures['prompt_tokens_mean']:,.1f}")
    _add(result, "recomputed tokens", figures["recomputed"])
    _add(result, "in the foreground", figures["foreground"])
    for name, label in MILLISECONDS.items():
        if name in figures:
            _add(result, label, figures[name])
    Console().print(result)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` of all values do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def _spread(values: Sequence[float]) -> dict[str, float]:
    ranks = {name: percentile(values, percent) for name, percent in PERCENTILES.items()}
    return {"mean": sum(values) / len(values), **ranks, "max": max(values)}


def _middle_and_tail(values: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(values, 50), "p95": percentile(values, 95)}


def _add(target: Table, label: str, figures: object) -> None:
    cells = [cast("dict[str, float]", figures).get(name) for name in ("mean", *PERCENTILES, "max")]
    target.add_row(label, *("" if cell is None else f"{cell:,.1f}" for cell in cells))
