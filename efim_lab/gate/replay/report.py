"""The results of a replay: one row per keystroke, summed up as figures for programs and as a table for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
COLUMNS = ("mean", *PERCENTILES, "max")
BEFORE_FIRST_TOKEN = ("plan", "tokenize", "restore", "prefill")
MINUTE = 60.0  # seconds
LEAST_PLAIN_ANSWERS = 20  # answers without drafts; fewer do not tell how long a pass takes


class GenerationCosts(NamedTuple):
    """What one answer took: milliseconds, forward passes after the first token's, and tokens.

    Of the `new_tokens`, `known` had already been computed for an earlier suggestion. Of the `drafted` tokens,
    `accepted` were right.
    """

    ttft_ms: float
    decode_ms: float
    total_ms: float
    passes: int
    new_tokens: int
    known: int
    drafted: int
    accepted: int


class KeystrokeRow(NamedTuple):
    """One keystroke: tokens of its prompt, `recomputed` while its user waited, and computed `ahead` of need.

    `wasted` counts the tokens computed ahead since the start and discarded unused; `reanchored` is whether a new
    frame was built; `made` is None if no model ran. `time` is the recording's, in seconds, and `ahead_seconds` the
    time of the work ahead before this keystroke.
    """

    prompt_tokens: int
    recomputed: int
    ahead: int
    wasted: int
    reanchored: bool
    made: GenerationCosts | None = None
    time: float = 0.0
    ahead_seconds: float = 0.0

    @property
    def typed_through(self) -> bool:
        """Whether the whole answer had been computed before, and nothing else was needed."""
        made = self.made
        return made is not None and not self.recomputed and not made.passes and 0 < made.known == made.new_tokens


def row_of(costs: Mapping[str, Any], ahead: int = 0, wasted: int = 0) -> KeystrokeRow:
    """Return the row of an answer from the costs that the server reports."""
    ms = costs["ms"]
    made = GenerationCosts(
        ttft_ms=sum(ms[stage] for stage in BEFORE_FIRST_TOKEN),
        decode_ms=ms["decode"],
        total_ms=ms["total"],
        passes=costs["passes"],
        new_tokens=costs["new_tokens"],
        known=costs["known"],
        drafted=costs["drafted"],
        accepted=costs["accepted"],
    )
    prompt_tokens = costs["reused"] + costs["recomputed"]
    return KeystrokeRow(prompt_tokens, costs["recomputed"], ahead, wasted, costs["frame"] == "new", made)


def summary(policy: str, rows: Sequence[KeystrokeRow]) -> dict[str, Any]:
    """Sum up one or more rows; figures about times, passes and new tokens are there only if a model ran."""
    prompt = sum(row.prompt_tokens for row in rows)
    recomputed = [row.recomputed + row.ahead for row in rows]
    wasted = rows[-1].wasted
    figures: dict[str, Any] = {
        "policy": policy,
        "keystrokes": len(rows),
        "prompt_tokens_mean": prompt / len(rows),
        "recomputed": _spread(recomputed),
        "foreground": _spread([row.recomputed for row in rows]),
        "background": {
            "mean": sum(row.ahead for row in rows) / len(rows),
            "wasted": wasted,
            "wasted_mean": wasted / len(rows),
        },
        "reuse": 1 - sum(recomputed) / prompt if prompt else 0.0,
        "reanchors": sum(row.reanchored for row in rows),
    }
    made = [row.made for row in rows if row.made]
    if not made:
        return figures
    figures["background"]["seconds_in_worst_minute"] = _worst_minute(rows)
    figures["typed_through"] = sum(row.typed_through for row in rows) / len(rows)
    return figures | _decoding(made) | _times(made)


def show(figures: Mapping[str, Any]) -> None:
    """Print the figures of `summary` as a table that fits 80 columns."""
    title = f"{figures['policy']}: {figures['keystrokes']:,} keystrokes, {figures['reanchors']:,} re-anchors"
    result = Table(title=title, caption=f"{figures['reuse']:.1%} of the prompts' tokens reused")
    result.add_column("per keystroke")
    for name in COLUMNS:
        result.add_column(name, justify="right")
    for label, cells in _lines(figures).items():
        result.add_row(label, *(_cell(cells.get(name)) for name in COLUMNS))
    Console().print(result)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: the smallest value that at least `percent` of all values do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def _worst_minute(rows: Sequence[KeystrokeRow]) -> float:
    """Return the most seconds of work ahead in any minute of the recording: what a server's idle budget bounds."""
    worst, spent, first = 0.0, 0.0, 0
    for row in rows:
        spent += row.ahead_seconds
        while rows[first].time <= row.time - MINUTE:
            spent -= rows[first].ahead_seconds
            first += 1
        worst = max(worst, spent)
    return worst


def _decoding(made: Sequence[GenerationCosts]) -> dict[str, float]:
    passes, new_tokens = sum(m.passes for m in made), sum(m.new_tokens for m in made)
    return {
        "known": sum(m.known for m in made) / new_tokens if new_tokens else 0.0,
        "passes": passes / len(made),
        "tokens_per_pass": 1 + sum(m.accepted for m in made) / passes if passes else 1.0,
    }


def _times(made: Sequence[GenerationCosts]) -> dict[str, Any]:
    first = [m.ttft_ms for m in made]
    times = {"ttft_ms": _middle_and_tail(first), "total_ms": _middle_and_tail([m.total_ms for m in made])}
    step = _step_ms(made)
    if step is None:
        return times
    return times | {"step_ms": step, "ttft_steps": _middle_and_tail([ms / step for ms in first])}


def _step_ms(made: Sequence[GenerationCosts]) -> float | None:
    """Return the milliseconds of a decode pass, from answers without drafts if there are enough of them."""
    decoded = [m for m in made if m.passes]
    plain = [m for m in decoded if not m.drafted]
    timed = plain if len(plain) >= LEAST_PLAIN_ANSWERS else decoded
    return median(m.decode_ms / m.passes for m in timed) if timed else None


def _spread(values: Sequence[float]) -> dict[str, float]:
    ranks = {name: percentile(values, percent) for name, percent in PERCENTILES.items()}
    return {"mean": sum(values) / len(values), **ranks, "max": max(values)}


def _middle_and_tail(values: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(values, 50), "p95": percentile(values, 95)}


def _lines(figures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the lines of the table: a label, and figures by column."""
    lines: dict[str, dict[str, Any]] = {
        "prompt tokens": {"mean": figures["prompt_tokens_mean"]},
        "recomputed tokens": figures["recomputed"],
        "  in the foreground": figures["foreground"],
        "  in the background": {"mean": figures["background"]["mean"]},
        "  of these discarded": {"mean": figures["background"]["wasted_mean"]},
    }
    if "ttft_ms" not in figures:
        return lines
    return lines | {
        "ms to the first new token": figures["ttft_ms"],
        "  in decode passes": figures.get("ttft_steps", {}),
        "ms to the whole answer": figures["total_ms"],
        "ms of a decode pass": {"p50": figures.get("step_ms")},
        "decode passes": {"mean": figures["passes"]},
        "tokens of a decode pass": {"mean": figures["tokens_per_pass"]},
        "new tokens already computed": {"mean": f"{figures['known']:.0%}"},
        "seconds ahead, worst minute": {"max": figures["background"]["seconds_in_worst_minute"]},
        "answers typed through": {"mean": f"{figures['typed_through']:.0%}"},
    }


def _cell(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{2 if value < 10 else 1 if value < 1000 else 0}f}"
