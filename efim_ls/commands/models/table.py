"""`efim-ls models`: prints the models as a table for people, or as JSON for clients that let users choose one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.commands.models.advice import recommended, speed
from efim_ls.commands.models.rows import Machine, ModelRow, list_models
from model_runtime.loading.pass_times import duration
from model_runtime.loading.threads import LARGE

# Licences and contexts are in --json only: 80 columns have no room for them.
NUMBERS = ("size", "disk", "a key", "new\nplace")
FIGURES_WIDTH = 41  # characters of a row after the name


def show(as_json: bool, current: str = "") -> int:
    """Print the recommended model, then the others; `current` is the value of the setting model."""
    machine, rows = list_models(current)
    first = recommended(rows)
    chosen = first and first.choice  # which all embedded models have: they are one choice
    rows.sort(key=lambda row: row.choice != chosen)
    if as_json:
        models = [_as_json(row, row.choice == chosen) for row in rows]
        print(json.dumps({"machine": asdict(machine), "models": models}))
    else:
        console = Console()
        console.print(_table(machine, rows, chosen, console.width))
        for row in rows:
            if row.problem:
                console.print(f"{_shown_name(row)} cannot be used: {row.problem}", markup=False, highlight=False)
    return 0


def _as_json(row: ModelRow, is_recommended: bool) -> dict[str, object]:
    also = {"answers_second": row.answers_second, "recommended": is_recommended, "speed": speed(row)}
    return {**asdict(row), **also}


def _table(machine: Machine, rows: Sequence[ModelRow], chosen: tuple[str, str | None] | None, width: int) -> Table:
    title = f"efim-ls models: {machine.free / 2**30:.1f} GiB of memory free, one thread reads "
    title += f"{machine.bandwidth / 1e9:.0f} GB/s"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False, padding=0)
    table.add_column("model", no_wrap=True)  # _broken has wrapped long names
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fits as", overflow="fold")
    table.caption = "recommended: the largest that is quick here. a key: half of the keys take no more. new place: "
    table.caption += "its first key, where nothing was computed ahead. ~: estimated; the embedded model is measured "
    table.caption += f"now. Before a model of {LARGE / 1e6:.0f}M or more the embedded ones answer; the surer answer "
    table.caption += "is shown"
    table.caption_justify = "left"
    for row in rows:
        notes = ["recommended"] * (row.choice == chosen) + ["in use"] * row.current
        table.add_row(*_cells(row, ", ".join(notes), width - FIGURES_WIDTH))
    return table


def _cells(row: ModelRow, note: str, room: int) -> tuple[str, ...]:
    """Return a row of the table, with lines of at most `room` characters in the model's name, and a note under it."""
    fits = [*row.fits, *(f"{form} (GPU)" for form in row.fits_gpu)]
    if row.in_part:
        fits.append(f"{row.in_part} (in part)")
    costs = (row.milliseconds, row.cold_milliseconds)
    name = _shown_name(row)
    return (
        escape(name if len(name) <= room else _broken(name, room)) + (f"\n [green]{note}[/]" if note else ""),
        "" if row.parameters is None else _size_of(row.parameters),
        "" if row.bytes_on_disk is None else f"{row.bytes_on_disk / 1e9:.2f}G",
        *("" if ms is None else f"{'' if row.measured else '~'}{duration(ms)}" for ms in costs),
        "[red]cannot be used[/]" if row.problem else " ".join(fits) or speed(row).removesuffix(" for this machine"),
    )


def _shown_name(row: ModelRow) -> str:
    name = f"{row.name}@{row.revision[:7]}" if row.revision else row.name
    return f"{name} ({row.quantization})" if row.quantization else name


def _size_of(parameters: int) -> str:
    if parameters < 995e6:
        return f"{parameters / 1e6:.0f}M"
    billions = parameters / 1e9
    return f"{billions:.{int(billions < 9.95)}f}B"


def _broken(name: str, room: int) -> str:
    """Break a name into lines, if possible after its owner or at a hyphen."""
    return textwrap.fill(name.replace("/", "/ "), max(room, 2), subsequent_indent=" ").replace("/ ", "/")
