"""`efim-ls calibrate`: types lines of a folder with a model for some minutes, and keeps what that tells of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from efim_ls.access.rules import Rules
from efim_ls.commands.calibration.fitting import Ghosts, fit, ghosts
from efim_ls.commands.calibration.lines import Key, choose_blocks, type_line
from efim_ls.completion.completer import Completer
from efim_ls.completion.giving_way import give_way
from efim_ls.completion.models.kinds import kind_of, no_progress
from efim_ls.completion.suggestions.sureness import calibrated_path, read_sureness
from efim_ls.failures import Failure
from efim_ls.languages.table import ANY
from efim_ls.settings import DEFAULTS, Settings
from model_runtime.errors import ModelError

LEAST_KEYS = 300  # fewer do not tell anything
MOST_LINES = 240  # two numbers are fitted no better to more of them, and each key keeps the text of its file


def show(folder: Path, model: str, minutes: float, cache: Path, now: Callable[[], float] = monotonic) -> int:
    """Calibrate a model by lines of a folder; print how many suggestions are wrong before and after.

    Raises Failure.
    """
    give_way()
    engine = replace(DEFAULTS.engine, alone=True)
    settings = Settings(model=model, persist=False, other_files="phrases", engine=engine)
    try:
        opened = kind_of(settings).open(settings, no_progress)
    except ModelError as error:
        raise Failure(str(error)) from error
    typed = _typed(Completer.over(opened, settings), folder, settings, minutes, now)
    keys, shipped = sum(map(len, typed)), read_sureness(opened.model.folder)
    if keys < LEAST_KEYS:
        raise Failure(f"{keys} keys were typed, too few to tell: name a folder with more code, or more --minutes")
    half, other = typed[::2], typed[1::2]  # one is judged by weights that were fitted to the other
    print(f"{len(typed)} lines, {keys} keys")
    print(f"  before  {_described(ghosts(other, shipped))}")
    print(f"  after   {_described(ghosts(other, fit(half, shipped)))}")
    path = calibrated_path(cache, opened.model.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fit(typed, shipped).to_json(), encoding="utf-8")
    print(f"kept in {path}: editors use it once they start this model again; remove the file to undo it")
    return 0


def _typed(
    completer: Completer, folder: Path, settings: Settings, minutes: float, now: Callable[[], float]
) -> list[list[Key]]:
    """Type lines of a folder until the time is up, and close the model."""
    languages = [each for each in completer.models.languages if each != ANY]
    blocks = choose_blocks(folder, Rules(settings, [folder.resolve().as_uri()]), languages)
    end, typed = now() + 60 * minutes, list[list[Key]]()
    with Console(stderr=True).status("typing") as status:
        for block in blocks:
            if now() > end or len(typed) >= MOST_LINES:
                break
            typed += [type_line(completer, line) for line in block]
            completer.close_document(block[0].uri, save=False)
            status.update(f"typing: {len(typed)} lines")
    completer.close(0)
    return typed


def _described(found: Ghosts) -> str:
    share = 100 * found.new / max(1, found.keys)
    return f"{share:.1f} new suggestions in 100 keys, {100 * found.wrong_share:.0f} of 100 wrong"
