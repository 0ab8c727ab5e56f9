"""Markdown that reads well on a terminal, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

WIDEST = 60  # characters that a column is padded to


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its header, columns padded to one width unless they are very wide."""
    widths = [min(WIDEST, max(3, *map(len, column))) for column in zip(*rows, strict=True)]
    header, *others = [_row([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in rows]
    return "\n".join((header, _row(["-" * width for width in widths]), *others))


def code(text: str) -> str:
    """A line of code for a table's cell, whatever is in it; blanks at its ends are not shown."""
    shown = " ".join(text.split("\n")).strip().replace("|", r"\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    padding = " " * (shown[:1] == "`" or shown[-1:] == "`")
    return f"{fence}{padding}{shown}{padding}{fence}" if shown else "(nothing)"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
