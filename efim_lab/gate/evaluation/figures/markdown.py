"""Formats Markdown that is also readable on a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

WIDEST = 60  # characters that a column is padded to


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table whose first row is the header; columns are padded unless they are very wide."""
    widths = [min(WIDEST, max(3, *map(len, column))) for column in zip(*rows, strict=True)]
    header, *others = [_row([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in rows]
    return "\n".join((header, _row(["-" * width for width in widths]), *others))


def code(text: str) -> str:
    """Format any line of code for a table cell, stripped of blanks at its ends."""
    shown = " ".join(text.split("\n")).strip().replace("|", r"\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    padding = " " * (shown[:1] == "`" or shown[-1:] == "`")
    return f"{fence}{padding}{shown}{padding}{fence}" if shown else "(nothing)"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
