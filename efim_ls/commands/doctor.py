"""`efim-ls doctor`: reports what would run on this machine, and why."""

from __future__ import annotations

import platform
from statistics import median

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request
from efim_ls.session.model_loader import CLOSING
from efim_ls.settings import Settings
from efim_ls.version import installed_version
from model_runtime.errors import ModelError
from model_runtime.machine import cuda_state

SAMPLE = "def mean(values):\n    total = 0\n    for value in values:\n        "
KEYSTROKES = "qux = zed(vex, wye)"  # unlike any suggestion, because typing through a suggestion costs nothing


def show(model: str) -> int:
    """Print versions, the model and the choices made for it, and measure a few keystrokes."""
    table = Table("what", "is", title="efim-ls doctor", title_justify="left")
    for name, found in _machine().items():
        table.add_row(name, found)
    try:
        with Console(stderr=True).status("loading the model") as status:
            completer = Completer.load(
                # Without a store: a disk_mib other than the user's would discard their cache.
                Settings(model=model, persist=False),
                lambda said, percent: status.update(f"{escape(said)} ({percent} %)"),
            )
    except ModelError as error:
        table.add_row("model", f"[red]cannot be used[/]: {escape(str(error))}")
        Console().print(table)
        return 1
    for name, found in completer.describe().items():
        if found != "" and not name.startswith("store"):
            table.add_row(name.replace("_", " "), escape(str(found)))
    for name, found in _measured(completer).items():
        table.add_row(name, found)
    completer.close(CLOSING)
    Console().print(table)
    return 0


def _machine() -> dict[str, str]:
    packages = ("efim-ls", "torch", "tokenizers", "xformers", "pygls")
    return {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed_version(name) or "not installed" for name in packages},
        "cuda": cuda_state(),
    }


def _measured(completer: Completer) -> dict[str, str]:
    answers = [_answer(completer, SAMPLE + KEYSTROKES[:n]) for n in range(len(KEYSTROKES))]
    passes = [a.costs.ms.decode / a.costs.passes for a in answers if a.costs.passes]
    totals = [a.costs.ms.total for a in answers[1:] if a.costs.passes]
    if not totals:
        return {"decoding": "not measured: the model made no suggestions"}
    return {
        "decoding": f"{median(passes):.1f} ms per pass (median, measured now)",
        "keystroke": f"{median(totals):.1f} ms for a complete new suggestion (median of {len(totals)}, measured now)",
    }


def _answer(completer: Completer, text: str) -> Answer:
    return completer.complete(Request("doctor:sample", text, len(text)), lambda: False)
