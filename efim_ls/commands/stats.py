"""`efim-ls stats`: suggestions shown, accepted and kept, by period and language."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.usage.counters import DAMAGED, STATISTICS, Count, counts_since, ratio

PERIODS = {"today": 1, "last 7 days": 7, "last 30 days": 30, "all": date.max.toordinal()}  # days
ALL = "all languages"
COUNTED: tuple[Count, ...] = ("shown", "accepted", "partially_accepted", "characters_accepted")
COLUMNS = ("shown", "accepted", "in part", "taken", "kept")
EXPLANATION = """
taken: the share of shown suggestions that were accepted, whole or in part
kept:  the share of accepted characters that were still there later"""

NEXT_EDITS: dict[str, Count] = {"shown": "edits_shown", "accepted": "edits_accepted", "kept": "edits_kept"}

Counts = Mapping[Count, int]
Languages = Mapping[str, Counts]


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
        Console().print(_table(found), EXPLANATION, *_next_edits(found), sep="\n")
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


def _table(found: Mapping[str, Languages]) -> Table:
    table = Table("suggestions", box=box.SIMPLE_HEAD, show_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for period, languages in _distinct(found):
        for name, counts in _rows(period, languages):
            table.add_row(escape(name), *_cells(counts))
        table.add_section()
    return table


def _next_edits(found: Mapping[str, Languages]) -> Iterator[Table]:
    """Yield a table of next edits if one was ever shown."""
    periods = {period: languages[ALL] for period, languages in _distinct(found) if languages}
    if not any(counts["edits_shown"] for counts in periods.values()):
        return
    table = Table("next edits", box=box.SIMPLE_HEAD, show_edge=False)
    for name in NEXT_EDITS:
        table.add_column(name, justify="right")
    for period, counts in periods.items():
        table.add_row(period, *(f"{counts[name]:,}" for name in NEXT_EDITS.values()))
    yield table


def _distinct(found: Mapping[str, Languages]) -> Iterator[tuple[str, Languages]]:
    """Yield the periods that say more than the shorter one before them."""
    before: Languages = {}
    for period, languages in found.items():
        if languages != before:
            yield period, languages
        before = languages


def _rows(period: str, languages: Languages) -> Iterator[tuple[str, Counts]]:
    """Yield a period's total and then its languages with something to count, or its only one."""
    (_, total), *each = languages.items()
    each = [(language, counts) for language, counts in each if any(counts[name] for name in COUNTED)]
    if len(each) == 1:
        yield f"{period}, {each[0][0]}", total
        return
    yield period, total
    for language, counts in each:
        yield f"  {language}", counts


def _cells(counts: Counts) -> tuple[str, ...]:
    return (
        f"{counts['shown']:,}",
        f"{counts['accepted']:,}",
        f"{counts['partially_accepted']:,}",
        _percent(counts["taken"], counts["shown"]),
        _percent(counts["characters_kept"], counts["characters_accepted"]),
    )


def _percent(part: int, whole: int) -> str:
    found = ratio(part, whole)
    return "" if found is None else f"{found:.0%}"
