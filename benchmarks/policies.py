"""Recomputed tokens of every keystroke of a recorded session, by the order of the prompt."""

from __future__ import annotations

from typing import Any, cast

from benchmarks.table import show
from editor_clients.headless import trace
from editor_clients.headless.report import Row, summary
from efim_ls.count import POLICIES, count
from efim_ls.window import Budget

COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")


def measure(recorded: trace.Trace, name: str) -> list[dict[str, object]]:
    """Count every policy on one trace, with the same budgets and windows."""
    results = [_summary(recorded, policy) for policy in POLICIES]
    rows = [
        [r["policy"], *(float(cast("Any", r["recomputed"])[c]) for c in COLUMNS), r["reuse"], r["reanchors"]]
        for r in results
    ]
    title = f"{name}: tokens recomputed per keystroke, {results[0]['keystrokes']:,} keystrokes"
    show(title, ("policy", *COLUMNS, "reuse", "re-anchors"), rows)
    return results


def _summary(recorded: trace.Trace, policy: str) -> dict[str, object]:
    counts = count(trace.keystrokes(recorded), policy, Budget())
    rows = [Row(c.prompt_tokens, c.recomputed, c.background, c.reanchored, None, None) for c in counts]
    return summary(policy, rows)
