"""Measures what is gained and lost by showing only suggestions above a confidence threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from efim_lab.documents import CodeDocument
from efim_lab.evaluation.arms import SERVER
from efim_lab.evaluation.figures import markdown, metrics
from efim_lab.evaluation.figures.intervals import Estimate, proportion
from efim_lab.evaluation.held_out import LONGEST_COMPLETION, Progress, model_name, places_in, silent
from efim_lab.evaluation.measured_model import LINE, MeasuredModel
from efim_lab.evaluation.places.cursors import CursorPlace
from efim_lab.evaluation.report import percent

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
LEVELS_HEADER = (
    "least confidence",
    "shown %",
    "exact of those %",
    "exact kept %",
    "first word kept %",
    "wrong kept %",
)


@dataclass(frozen=True)
class RatedSuggestion:
    """A suggestion for the rest of a line and the model's confidence in it, 0 to 1."""

    text: str
    confidence: float


@dataclass(frozen=True)
class ConfidenceLevel:
    """What a threshold keeps: of all suggestions, of the right ones, of the characters after the first wrong one.

    `exact` is the share of right ones among those shown. A share of nothing is None.
    """

    shown: Estimate
    exact: Estimate | None
    exact_kept: Estimate | None
    first_word_kept: Estimate | None
    wrong_kept: float | None


@dataclass(frozen=True)
class ConfidenceReport:
    """A model's figures by threshold, at the same cursors."""

    suggestions: int
    levels: Mapping[float, ConfidenceLevel]


def measure(
    folder: Path, documents: Sequence[CodeDocument], count: int, progress: Progress = silent
) -> ConfidenceReport:
    """Prompt the model in `folder` as the server does, at up to `count` places determined by the documents."""
    places = places_in(documents, count)
    subject, what = MeasuredModel(folder), f"{model_name(folder)}, confidence"
    guesses: list[RatedSuggestion] = []
    for done, place in enumerate(places):
        progress(what, done, len(places))
        guesses.append(_guess(subject, place))
    progress(what, len(places), len(places))
    return report(places, guesses)


def report(places: Sequence[CursorPlace], guesses: Sequence[RatedSuggestion]) -> ConfidenceReport:
    """Score suggestions, one for each place; empty ones are not counted."""
    said = [(place, guess) for place, guess in zip(places, guesses, strict=True) if guess.text.strip()]
    return ConfidenceReport(len(said), {least: _level(said, least) for least in LEVELS} if said else {})


def table(reports: Mapping[str, ConfidenceReport]) -> str:
    """Format all figures in Markdown, 95 % intervals in brackets."""
    rows = [
        [f"{least:.0%}, {model}" if len(reports) > 1 else f"{least:.0%}", *_cells(each.levels[least])]
        for least in LEVELS
        for model, each in reports.items()
        if each.levels
    ]
    counts = ", ".join(f"{each.suggestions:,}" for each in reports.values())
    title = f"Showing only suggestions the model is sure enough of, of {counts}, 95 % intervals in brackets"
    return f"{title}\n\n{markdown.table([LEVELS_HEADER, *rows])}"


def _guess(subject: MeasuredModel, place: CursorPlace) -> RatedSuggestion:
    (prompt,) = subject.prompts(place.context, [SERVER], LONGEST_COMPLETION)
    made = subject.generate(SERVER, prompt, LINE, LONGEST_COMPLETION)
    return RatedSuggestion(made.text, made.confidence)


def _level(said: Sequence[tuple[CursorPlace, RatedSuggestion]], least: float) -> ConfidenceLevel:
    shown = [guess.confidence >= least for _, guess in said]
    exact = [metrics.is_exact(guess.text, place.rest) for place, guess in said]
    words = [metrics.is_first_word_right(guess.text, place.rest, place.context.typed) for place, guess in said]
    wrong = [_wrong(guess.text.rstrip(), place.rest) for place, guess in said]
    left = [characters if is_shown else 0 for characters, is_shown in zip(wrong, shown, strict=True)]
    return ConfidenceLevel(
        shown=proportion(shown),
        exact=_share(shown, exact),
        exact_kept=_share(exact, shown),
        first_word_kept=_share(words, shown),
        wrong_kept=sum(left) / sum(wrong) if any(wrong) else None,
    )


def _share(among: Sequence[bool], hits: Sequence[bool]) -> Estimate | None:
    """Return the share of hits among those selected, None if none is."""
    counted = [hit for counts, hit in zip(among, hits, strict=True) if counts]
    return proportion(counted) if counted else None


def _wrong(text: str, rest: str) -> int:
    """Count the characters from the first one that differs from the rest of the line."""
    right = next((i for i, pair in enumerate(zip(text, rest, strict=False)) if pair[0] != pair[1]), None)
    return len(text) - (min(len(text), len(rest)) if right is None else right)


def _cells(each: ConfidenceLevel) -> tuple[str, ...]:
    shares = (each.shown, each.exact, each.exact_kept, each.first_word_kept)
    return *map(percent, shares), "" if each.wrong_kept is None else f"{100 * each.wrong_kept:.1f}"
