"""Writes fitted weights as the product's module, and what each level would show as a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.workshop.training.observation import Floats
from efim_lab.workshop.training.sureness.fitting import CURVE, Fitted, curve, fit_both, wrong_by_kind
from efim_lab.workshop.training.sureness.recording import ARMS, record
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.completion.suggestions.place_kind import KINDS

# What the inputs of `efim_ls/completion/suggestions/sureness.py` are, in their order.
GUESS_INPUTS = (
    "bias", "logit of the model's probability", "agrees", "agrees, and there is no other", "one other word",
    "other words", "no such word", "stands in the file", "usual", "counted", "followed", "refuted", "letters 0",
    "letters 1", "letters", "size", "expected", "expected, and agrees", *KINDS,
)  # fmt: skip
WORD_INPUTS = (
    "bias", "logit of the model's probability", "logit of the rival's sureness", "only one", "log longer", "share",
    "log times", "nearest", "is word", "letters", "letters 2", "size", "refuted", "expected", *KINDS,
)  # fmt: skip
_HEAD = (
    '"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""\n'
)
_EVERY = 25  # lines between reports of progress


def fit_sureness(
    folder: Path, documents: Sequence[CodeDocument], lines: int, out: Path, progress: Callable[[str], None]
) -> str:
    """Type lines with the model in a folder, fit the weights, write them, and return the report; raises WorkError."""

    def report(done: int, count: int) -> None:
        if done % _EVERY == 0:
            progress(f"{done} of {count} lines typed")

    fitted = fit_both(record(folder, documents, lines, report))
    try:
        out.write_text(module_of(fitted), encoding="utf-8", newline="\n")
    except OSError as error:
        raise WorkError(f"{out} cannot be written ({error.strerror}): check the folder, or name another") from error
    return report_of(fitted)


def module_of(fitted: Fitted) -> str:
    """Return the source of `sureness_weights.py` with these weights."""
    return f"{_HEAD}\n{_tuple('GUESS', fitted.guess, GUESS_INPUTS)}{_tuple('WORD', fitted.word, WORD_INPUTS)}"


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


def _tuple(name: str, weights: Floats, inputs: Sequence[str]) -> str:
    rows = (f"    {weight:.3f},  # {each}\n" for weight, each in zip(weights, inputs, strict=True))
    return f"{name} = (\n{''.join(rows)})\n"
