"""How the demo looks: the code around the cursor with the suggestion in it, and what the last key cost."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from editor_clients.headless.demo.tally import Tally
from editor_clients.headless.demo.typist import Moment

CODE_LINES = 14
BAR = 60  # cells
SPARKS = "▁▂▃▄▅▆▇█"
SLOWEST = 1000.0  # milliseconds that fill a spark
GHOST, CURSOR, REUSED, RECOMPUTED = "bright_black italic", "reverse", "green", "red"


def screen(moment: Moment, tally: Tally) -> RenderableType:
    """Everything to see after a key, 80 columns by 24 lines."""
    return Group(
        Panel(_code(moment), title="inventory.py", height=CODE_LINES + 2),
        Panel(_costs(moment, tally), title="this keystroke"),
    )


def _code(moment: Moment) -> Text:
    """The lines around the cursor; the suggestion stands in them as it would after it was accepted."""
    first = max(moment.text.count("\n", 0, moment.cursor) - CODE_LINES // 2, 0)
    lines = moment.text.splitlines(keepends=True)
    begin = sum(map(len, lines[:first]))
    visible = "".join(lines[first : first + CODE_LINES])
    code = Syntax("", "python", theme="ansi_dark").highlight(visible)
    at = moment.cursor - begin
    ghost = moment.completion.text or " "
    shown = Text.assemble(code[:at], (ghost[:1], CURSOR), (ghost[1:], GHOST), code[at:])
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown


def _costs(moment: Moment, tally: Tally) -> Text:
    costs = moment.completion.costs
    now = Text.assemble(
        (f"{moment.key:<10}", "bold"),
        (f"{costs['reused']:>6} tokens reused", REUSED),
        (f"{costs['recomputed']:>6} recomputed", RECOMPUTED),
        f"{costs['ms']['total']:>10.1f} ms",
    )
    history = Text.assemble((_sparkline(tally.milliseconds[-BAR:]), "cyan"), ("  ms a key", "dim"))
    keys = f"keys pressed {len(tally.milliseconds)}, saved {tally.saved} by {tally.accepted} suggestions"
    sums = Text(f"{keys}; {tally.reuse:.1%} of all tokens reused")
    return Text("\n").join([now, _bar(costs["reused"], costs["recomputed"]), Text(), history, sums])


def _bar(reused: int, recomputed: int) -> Text:
    red = math.ceil(BAR * recomputed / max(reused + recomputed, 1))
    return Text.assemble(("━" * (BAR - red), REUSED), ("━" * red, RECOMPUTED))


def _sparkline(milliseconds: list[float]) -> str:
    """Heights grow with the logarithm, from one millisecond up."""
    top = len(SPARKS) - 1
    heights = [math.log(max(value, 1)) / math.log(SLOWEST) * top for value in milliseconds]
    return "".join(SPARKS[min(round(height), top)] for height in heights)
