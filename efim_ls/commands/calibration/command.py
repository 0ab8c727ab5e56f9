"""`efim-ls calibrate`: types lines of a folder with a model for some minutes, and keeps what that tells of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

from efim_ls.access.rules import Rules
from efim_ls.commands.calibration.fitting import Ghosts, fit, ghosts
from efim_ls.commands.calibration.lines import Key, choose_blocks, type_line
from efim_ls.completion.completer import Completer
from efim_ls.completion.giving_way import give_way
from efim_ls.completion.models.kinds import kind_of, no_progress
from efim_ls.completion.suggestions.sureness import calibrated_path
from efim_ls.failures import Failure
from efim_ls.languages.table import ANY
from efim_ls.settings import DEFAULTS, Settings
from model_runtime.errors import ModelError

LEAST_KEYS, MOST_LINES = 300, 1_000  # beyond which two numbers are fitted no better
MINUTE = 60.0


def show(folder: Path, model: str, minutes: float, cache: Path, now: Callable[[], float] = monotonic) -> int:
    """Calibrate a model by lines of a folder; print how many suggestions are wrong before and after.

    Raises Failure.
    """
    with suppress(OSError):
        give_way()
    settings = Settings(
        model=model, persist=False, other_files="phrases", engine=replace(DEFAULTS.engine, alone=True)
    )
    try:
        opened = kind_of(settings).open(settings, no_progress)
    except ModelError as error:
        raise Failure(str(error)) from error
    completer = Completer.over(opened, settings)
    known = [each for each in completer.models.languages if each != ANY]
    end, typed = now() + minutes * MINUTE, list[list[Key]]()
    for block in choose_blocks(folder, Rules(settings, [folder.resolve().as_uri()]), known):
        if now() > end or len(typed) >= MOST_LINES:
            break
        typed += [type_line(completer, line) for line in block]
        completer.close_document(block[0].uri, save=False)
        _tell(typed)
    print(file=sys.stderr)
    keys = sum(map(len, typed))
    if keys < LEAST_KEYS:
        raise Failure(f"{keys} keys were typed, too few to tell: name a folder with more code, or more --minutes")
    path = calibrated_path(cache, opened.model.digest)
    half, other = typed[::2], typed[1::2]  # one is judged by weights that were fitted to the other
    print(f"{len(typed)} lines, {keys} keys")
    print(f"  before  {_described(ghosts(other, opened.sureness))}")
    print(f"  after   {_described(ghosts(other, fit(half, opened.sureness)))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fit(typed, opened.sureness).to_json(), encoding="utf-8")
    print(f"kept in {path}: editors use it once they start this model again; remove the file to undo it")
    completer.close(0)
    return 0


def _described(found: Ghosts) -> str:
    share = 100 * found.new / max(1, found.keys)
    return f"{share:.1f} new suggestions in 100 keys, {100 * found.wrong_share:.0f} of 100 wrong"


def _tell(typed: list[list[Key]]) -> None:
    if os.isatty(2):
        print(f"\r{len(typed)} lines typed", end="", file=sys.stderr, flush=True)
