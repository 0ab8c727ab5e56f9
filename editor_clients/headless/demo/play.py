"""`efim-ls demo`: a short editing session with the real server, to watch or, without a terminal, to read."""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.live import Live
from rich.panel import Panel

from editor_clients.headless.client import editor
from editor_clients.headless.demo.screen import screen
from editor_clients.headless.demo.tally import Tally
from editor_clients.headless.demo.typist import Moment, Typist

TYPING, READING, JUMPING = 0.06, 0.6, 1.0  # seconds from one key to the next
LOADING = "loading model"


def play_session() -> int:
    """Play the session and sum it up."""
    console = Console()
    animated = console.is_terminal and not console.is_dumb_terminal
    tally = asyncio.run(_animate(console) if animated else _tell())
    console.print(tally.table())
    return 0


async def _animate(console: Console) -> Tally:
    tally, clock = Tally(), asyncio.get_running_loop()
    next_key = 0.0
    with Live(Panel(LOADING), console=console, auto_refresh=False, screen=True) as live:
        async with editor({"persist": False, "shared": False}) as headless:
            async for moment in Typist(headless).moments():
                tally.add(moment)
                live.update(screen(moment, tally, console.height), refresh=True)
                next_key = max(next_key + _look(moment), clock.time())
                await asyncio.sleep(next_key - clock.time())
    return tally


def _look(moment: Moment) -> float:
    if moment.last:
        return JUMPING
    return READING if moment.welcome else TYPING


async def _tell() -> Tally:
    tally = Tally()
    print(LOADING, flush=True)
    async with editor({"persist": False, "shared": False}) as headless:
        async for moment in Typist(headless).moments():
            tally.add(moment)
            print(_line(len(tally.milliseconds), moment), flush=True)
    return tally


def _line(number: int, moment: Moment) -> str:
    costs, suggestion = moment.completion.costs, moment.completion.text
    tokens = f"{costs['reused']:>5} reused {costs['recomputed']:>5} recomputed {costs['ms']['total']:>7.1f} ms"
    return f"{number:>4} {moment.key:<10}{tokens}  {suggestion!r}"
