"""Draws the demo: the code around the cursor with the suggestion in it, and what the last key cost."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from editor_clients.headless.demo.tally import Tally, infilling
from editor_clients.headless.demo.typist import Moment

COSTS_HEIGHT = 7
BAR = 48  # cells
SPARKS = "▁▂▃▄▅▆▇█"
SLOWEST = 1000.0  # milliseconds that fill a spark
GHOST, CURSOR, REUSED, RECOMPUTED = "bright_black italic", "reverse", "green", "red"


def screen(moment: Moment, tally: Tally, height: int) -> RenderableType:
    """Draw the screen after a key, 80 columns by `height` lines."""
    lines = max(height - COSTS_HEIGHT - 2, 1)
    return Group(
        Panel(_code(moment, lines), title="inventory.py, typed into the real server", height=lines + 2),
        Panel(_costs(moment, tally), title="this key", height=COSTS_HEIGHT),
    )


def _code(moment: Moment, count: int) -> Text:
    """Draw the lines around the cursor, with the suggestion where accepting would insert it."""
    first = max(moment.text.count("\n", 0, moment.cursor) - count // 2, 0)
    lines = moment.text.splitlines(keepends=True)
    begin = sum(map(len, lines[:first]))
    visible = "".join(lines[first : first + count])
    code = Syntax("", "python", theme="ansi_dark").highlight(visible)
    at = moment.cursor - begin
    ghost = moment.completion.text or " "
    shown = Text.assemble(code[:at], (ghost[:1], CURSOR), (ghost[1:], GHOST), code[at:])
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def _costs(moment: Moment, tally: Tally) -> Text:
    costs = moment.completion.costs
    total, usual = costs["reused"] + costs["recomputed"], infilling(moment)
    key = Text.assemble((f"{moment.key:<10}", "bold"), f"{costs['ms']['total']:>8.1f} ms, grey is the suggestion")
    history = Text.assemble((_sparkline(tally.milliseconds[-BAR:]), "cyan"), ("  ms a key", "dim"))
    suggestions = f"{tally.accepted} suggestion{'s' * (tally.accepted != 1)}"
    sums = Text(f"{len(tally.milliseconds)} keys pressed, {tally.saved} saved by {suggestions}")
    ours, theirs = _bar("efim-ls", costs["recomputed"], total), _bar("FIM", usual, total)
    return Text("\n").join([key, ours, theirs, history, sums])


def _bar(name: str, recomputed: int, total: int) -> Text:
    """Draw the prompt's tokens as a bar; those recomputed for this key are red."""
    red = math.ceil(BAR * min(recomputed / max(total, 1), 1))
    counts = f" {recomputed:>5} recomputed"
    return Text.assemble(f"{name:<8}", ("━" * (BAR - red), REUSED), ("━" * red, RECOMPUTED), counts)


def _sparkline(milliseconds: list[float]) -> str:
    """Draw milliseconds on a logarithmic scale from one millisecond up."""
    top = len(SPARKS) - 1
    heights = [math.log(max(value, 1)) / math.log(SLOWEST) * top for value in milliseconds]
    return "".join(SPARKS[min(round(height), top)] for height in heights)
