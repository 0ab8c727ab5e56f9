"""Counts the tokens recomputed at every keystroke of a recorded session, by prompt order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.keystrokes import plot
from benchmarks.table import show
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.policies import POLICIES, count_radix_rows, count_rows
from efim_lab.gate.replay.report import summary
from efim_ls.completion.planning.window import Budget

FOREGROUND = ("mean", "p50", "p90", "p95", "p99")
HEADER = ("policy", "mean in all", "foreground", *FOREGROUND[1:], "background", "given up", "re-anchors")
# The other orders once more, as by a server that keeps as many tokens as we do and reuses any of their beginnings.
RADIX = {f"{policy}, radix": policy for policy in ("psm", "spm", "efim-paper")}
COMPARED = ("psm", "efim-paper", *RADIX)


def measure(recorded: trace.Trace, name: str, picture: Path | None) -> dict[str, Any]:
    """Count every policy on one trace, with the same budgets and windows; draw it where a path is given (PNG)."""
    rows = {policy: list(count_rows(trace.keystrokes(recorded), policy, Budget())) for policy in POLICIES}
    for row, policy in RADIX.items():
        rows[row] = list(count_radix_rows(trace.keystrokes(recorded), policy, Budget()))
    figures = {policy: summary(policy, found) for policy, found in rows.items()}
    title = f"{name}: tokens recomputed per keystroke, {len(rows['efim']):,} keystrokes"
    show(title, HEADER, [_line(each) for each in figures.values()])
    if picture:
        plot.draw({policy: rows[policy] for policy in plot.LABELS}, picture)
    return {"trace": name, "figures": figures, "ratios": {f"{p}/efim": _ratios(figures, p) for p in COMPARED}}


def _line(figures: dict[str, Any]) -> list[object]:
    foreground, background = figures["foreground"], figures["background"]
    ranks = [foreground[name] for name in FOREGROUND]
    means = [background["mean"], background["wasted_mean"]]
    return [figures["policy"], figures["recomputed"]["mean"], *ranks, *means, figures["reanchors"]]


def _ratios(figures: dict[str, dict[str, Any]], policy: str) -> dict[str, float]:
    """Return how many times efim's tokens a policy recomputes, in all and while the user waits."""
    return {k: figures[policy][k]["mean"] / figures["efim"][k]["mean"] for k in ("recomputed", "foreground")}
