"""Measures what a keystroke costs the server's copy of a long file."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.table import show
from efim_ls.text.document import Change, Document

LINES = (1_000, 5_000, 20_000)
KEYSTROKES = 300


def measure() -> list[dict[str, float]]:
    """Type in the middle of longer and longer files, with UTF-16 positions as VS Code sends them."""
    results = [{"lines": lines, "ms": _ms_per_keystroke(lines)} for lines in LINES]
    show("text mirror", ("lines", "ms a keystroke"), [r.values() for r in results])
    return results


def _ms_per_keystroke(lines: int) -> float:
    document = Document("file:///long.py", "python", "    total = compute(values)  # é\n" * lines)
    times: list[float] = []
    for n in range(KEYSTROKES):
        started = perf_counter()
        place = (lines // 2, 10 + n)
        document.apply(Change("x", place, place), "utf-16")
        document.offset(lines // 2, 11 + n, "utf-16")
        times.append((perf_counter() - started) * 1e3)
    return median(times)
