"""Writes fitted weights into the model's folder, and what each level would show as a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.workshop.training.sureness.fitting import CURVE, Fitted, curve, fit_both, wrong_by_kind
from efim_lab.workshop.training.sureness.recording import ARMS, record
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.completion.suggestions.place_kind import KINDS
from efim_ls.completion.suggestions.sureness import SURENESS_FILE, Sureness

_EVERY = 25  # lines between reports of progress


def fit_sureness(folder: Path, documents: Sequence[CodeDocument], lines: int, progress: Callable[[str], None]) -> str:
    """Type lines with the model in a folder, fit the weights, write them there, and return the report.

    Raises WorkError.
    """

    def report(done: int, count: int) -> None:
        if done % _EVERY == 0:
            progress(f"{done} of {count} lines typed")

    fitted = fit_both(record(folder, documents, lines, report))
    try:
        (folder / SURENESS_FILE).write_text(sureness_of(fitted).to_json(), encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkError(f"cannot write to {folder} ({error}): make room for it there") from error
    return report_of(fitted)


def sureness_of(fitted: Fitted) -> Sureness:
    """Return the fitted weights as the server reads them."""
    guess, word = (tuple(round(float(weight), 3) for weight in row) for row in (fitted.guess, fitted.word))
    return Sureness(guess, word)


def report_of(fitted: Fitted) -> str:
    """Return the tables of what each level would show, in percent, and one JSON object in the last line."""
    least = LEVELS["balanced"]
    curves = {arm: curve(lines) for arm, lines in fitted.lines.items()}
    kinds = {arm: wrong_by_kind(lines, least) for arm, lines in fitted.lines.items()}
    levels = [["level", *(f"{arm}: new, wrong of them, keys under wrong, keys saved %" for arm in ARMS)]]
    for level in CURVE:
        points = (curves[arm][level] for arm in ARMS)
        cells = (f"{each.new:.1f}, {each.wrong:.1f}, {each.under_wrong:.1f}, {each.saved:.1f}" for each in points)
        levels.append([f"{level}", *cells])
    places = [[f"kind of place, at {least}", *(f"{arm}: ghosts, wrong %" for arm in ARMS)]]
    for kind in KINDS:
        found = (kinds[arm].get(kind) for arm in ARMS)
        places.append([kind, *(f"{each[0]}, {each[1]:.1f}" if each else "" for each in found)])
    areas = f"Area under the curve: {fitted.guess_area:.3f} of guesses, {fitted.word_area:.3f} of words of the file."
    found = {
        "areas": {"guess": fitted.guess_area, "word": fitted.word_area},
        "levels": {arm: {level: asdict(point) for level, point in curves[arm].items()} for arm in ARMS},
        "kinds": {arm: {kind: {"ghosts": n, "wrong": w} for kind, (n, w) in kinds[arm].items()} for arm in ARMS},
    }
    return "\n\n".join([areas, markdown.table(levels), markdown.table(places), json.dumps(found)])
