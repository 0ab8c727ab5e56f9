"""Replays part of a recorded session through the real server, and FIM's prompts through the same model."""

from __future__ import annotations

from typing import Any

from benchmarks.table import show
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.baseline import baseline_rows
from efim_lab.gate.replay.player import replay
from efim_lab.gate.replay.report import summary
from efim_ls.settings import Settings

SKIP, REQUESTS = 8_000, 300
TIMES = ("ms to first token, p50", "p95", "in passes, p50", "p95")
HEADER = ("policy", "foreground tokens", *TIMES, "typed through", "s ahead, worst minute")


def part_of(recorded: trace.Trace) -> trace.Trace:
    """Return the keystrokes after the first 8,000, or after half of a shorter session."""
    return trace.part(recorded, min(SKIP, len(recorded.events) // 2), REQUESTS)


def measure(part: trace.Trace, name: str) -> dict[str, Any]:
    """Measure tokens and milliseconds of part of a session."""
    rows = {
        "psm": list(baseline_rows(trace.keystrokes(part), "psm", Settings())),
        "efim": replay(part, name, {}),
    }
    figures = {policy: summary(policy, found) for policy, found in rows.items()}
    show(f"{name}: {len(rows['efim'])} keystrokes, embedded model", HEADER, [_line(f) for f in figures.values()])
    return figures


def _line(figures: dict[str, Any]) -> list[object]:
    ms, steps = figures["ttft_ms"], figures["ttft_steps"]
    times = [ms["p50"], ms["p95"], steps["p50"], steps["p95"]]
    through, ahead = f"{figures['typed_through']:.0%}", figures["background"]["seconds_in_worst_minute"]
    return [figures["policy"], figures["foreground"]["mean"], *times, through, ahead]
