"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table


def show(title: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; numbers with one decimal below a thousand."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(width=110).print(table)


def _cell(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
