"""What a server did for many people, as figures for programs and as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from efim_lab.gate.replay.report import percentile
from efim_lab.gate.team.blocks import BlockRow
from efim_lab.gate.team.load import KeyRow, LoadRun

LATENCIES = {"p50": 50, "p95": 95, "worst": 100}


def summary(run: LoadRun, users: int) -> dict[str, Any]:
    """Sum up a run: latencies in milliseconds, shares from 0 to 1, tokens a key."""
    keys = [row for row in run.rows if not row.is_ahead]
    figures: dict[str, Any] = {
        "server": run.served.kind,
        "model": run.served.model,
        "users": users,
        "keys": len(keys),
        "requests_a_second": len(run.rows) / run.seconds,
        "ms": {name: 1e3 * percentile([row.seconds for row in keys], at) for name, at in LATENCIES.items()},
        "prompt_tokens": sum(row.prompt for row in keys) / len(keys),
        "new_tokens": sum(row.new for row in keys) / len(keys),
    }
    told = [row for row in run.rows if row.cached is not None]
    if len(told) < len(run.rows):  # a server that says nothing of its cache
        return figures
    later = [row for row in keys if not row.is_first]
    return figures | {
        "cached_share": _share(keys),
        "cached_share_after_first": _share(later) if later else 0.0,
        "computed_tokens": sum(map(_computed, keys)) / len(keys),
        "computed_ahead": sum(map(_computed, run.rows)) / len(keys) - sum(map(_computed, keys)) / len(keys),
    }


def _computed(row: KeyRow) -> int:
    return row.prompt - (row.cached or 0)


def _share(rows: Sequence[KeyRow]) -> float:
    return 1 - sum(map(_computed, rows)) / sum(row.prompt for row in rows)


def show(figures: Mapping[str, Any]) -> None:
    """Print what a server did."""
    title = f"{figures['users']} people at {figures['server']}, {figures['model']}"
    table = Table("", "", title=title)
    ms = figures["ms"]
    lines = {
        "keys": f"{figures['keys']:,}",
        "requests a second": f"{figures['requests_a_second']:.1f}",
        "ms a key: median, 95th percentile, worst": " / ".join(f"{ms[name]:,.0f}" for name in LATENCIES),
        "prompt tokens a key": f"{figures['prompt_tokens']:,.0f}",
        "new tokens a key": f"{figures['new_tokens']:.1f}",
    }
    if "cached_share" in figures:
        lines |= {
            "prompt tokens that were cached": f"{figures['cached_share']:.1%}",
            "  without each person's first key": f"{figures['cached_share_after_first']:.1%}",
            "prompt tokens computed a key": f"{figures['computed_tokens']:.0f}",
            "  ahead of need": f"{figures['computed_ahead']:.0f}",
        }
    for line in lines.items():
        table.add_row(*line)
    Console().print(table)


def show_blocks(rows: Sequence[BlockRow], keys: int, a_minute: float) -> None:
    """Print what blocks of each size would reuse of the same keys."""
    caption = f"counted, nothing evicted; a minute of typing asks {a_minute:.0f} times"
    table = Table(title="prompt tokens by the size of a block", caption=caption)
    for column in ("block", "cached", "without first keys", "computed a key", "ahead"):
        table.add_column(column, justify="right")
    for row in rows:
        shares = (f"{share:.1%}" for share in (row.share, row.share_after_first))
        table.add_row(str(row.size), *shares, f"{row.computed / keys:.1f}", f"{row.ahead / keys:.1f}")
    Console().print(table)
