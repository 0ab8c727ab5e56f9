"""`efim-ls stats`: suggestions shown, accepted and kept, by period and language."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.usage.counters import Count, ratio
from efim_ls.usage.history import DAMAGED, STATISTICS, counts_since

PERIODS = {"today": 1, "last 7 days": 7, "last 30 days": 30, "all": date.max.toordinal()}  # days
ALL = "all languages"
HEADINGS = ("", "language", "shown", "accepted", "in part", "acceptance", "characters kept", "tokens reused")

Counts = Mapping[Count, int]


def show(cache: Path, as_json: bool) -> int:
    """Print the usage statistics; raises sqlite3.Error."""
    path = cache / STATISTICS
    has_counts = path.is_file() and path.stat().st_size > 0
    found = {name: _by_language(path, days) for name, days in PERIODS.items()} if has_counts else {}
    if as_json:
        print(json.dumps(found))
    elif not found:
        print(f"nothing has been counted yet in {cache}")
    else:
        Console().print(_table(found))
    return 0


def clear(cache: Path) -> int:
    """Delete the statistics; raises OSError."""
    for path in (cache / STATISTICS, cache / f"{STATISTICS}{DAMAGED}"):
        path.unlink(missing_ok=True)
    print("removed: the usage statistics")
    return 0


def _by_language(path: Path, days: int) -> dict[str, Counts]:
    """Return the counts of the last `days`, of all languages together and then of each, most shown first."""
    today = date.today()
    found = counts_since(path, today - timedelta(min(days, today.toordinal()) - 1))
    total = Counter[Count]()
    for counts in found.values():
        total.update(counts)
    each = sorted(found.items(), key=lambda item: -item[1]["shown"])
    return {ALL: total, **dict(each)} if found else {}


def _table(found: Mapping[str, Mapping[str, Counts]]) -> Table:
    table = Table(*HEADINGS, title="efim-ls stats", title_justify="left")
    for period, languages in found.items():
        for language, counts in languages.items():
            table.add_row(period if language == ALL else "", escape(language), *_cells(counts))
        table.add_section()
    return table


def _cells(counts: Counts) -> tuple[str, ...]:
    kept, of = counts["characters_kept"], counts["characters_accepted"]
    return (
        f"{counts['shown']:,}",
        f"{counts['accepted']:,}",
        f"{counts['partially_accepted']:,}",
        _percent(counts["taken"], counts["shown"]),
        f"{kept:,} of {of:,} {_percent(kept, of)}".strip(),
        _percent(counts["reused"], counts["reused"] + counts["recomputed"]),
    )


def _percent(part: int, whole: int) -> str:
    found = ratio(part, whole)
    return "" if found is None else f"{found:.0%}"
