"""One machine of a team, as a process: it opens a file, asks for a completion, and says what that took.

It reads an order as JSON from stdin and writes a `FirstCompletion` to stdout.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from efim_lab.gate.errors import WorkError
from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from efim_ls.settings import parse
from model_runtime.cancel import NEVER

WRITING = 120.0  # seconds that a machine may take to save its keys and values


class FirstCompletion(NamedTuple):
    """What a first key took, with a loaded model: seconds, its tokens and where they came from, the text."""

    seconds: float
    tokens: int
    fetched: int
    recomputed: int
    text: str


def first_completion(settings: Mapping[str, Any], path: Path, cursor: int, save: bool) -> FirstCompletion:
    """Run a machine with these settings, as a user writes them; with `save` its keys and values go to its store.

    Raises WorkError if it fails.
    """
    order = json.dumps({"settings": settings, "path": str(path), "cursor": cursor, "save": save})
    ran = subprocess.run(
        [sys.executable, "-m", "efim_lab.studies.tiers.machine"], input=order, capture_output=True, encoding="utf-8"
    )
    if ran.returncode or not ran.stdout:
        raise WorkError(f"a machine ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return FirstCompletion(**json.loads(ran.stdout.splitlines()[-1]))


def _ignore(step: str, percent: int) -> None:
    """Show no progress."""


def main() -> None:
    """Do what the order on stdin says."""
    order = json.load(sys.stdin)
    settings, problems = parse(order["settings"])
    if problems:
        raise SystemExit("; ".join(problems))
    completer = Completer.load(settings, _ignore)
    path = Path(order["path"])
    request = Request(path.as_uri(), path.read_text("utf-8"), order["cursor"], language="python")
    began = perf_counter()
    answer = completer.complete(request, NEVER)
    seconds, costs = perf_counter() - began, answer.costs
    if order["save"]:
        completer.save(request.uri, NEVER)
        completer.flush(WRITING)
    completer.close(WRITING)
    tokens = costs.reused + costs.recomputed
    print(json.dumps(FirstCompletion(seconds, tokens, costs.fetched, costs.recomputed, answer.text)._asdict()))


if __name__ == "__main__":
    main()
