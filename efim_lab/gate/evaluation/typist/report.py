"""Formats the figures of typing in Markdown, 95 % intervals in brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.report import cell, percent
from efim_lab.gate.evaluation.typist.cursor_kinds import KINDS
from efim_lab.gate.evaluation.typist.figures import TypistFigures
from efim_lab.gate.evaluation.typist.measurement import HEURISTIC, RepositoryGain, TypedArm, TypingReport
from efim_ls.languages.table import name_of

ByTypist = Mapping[str, TypistFigures]
TYPING_HEADER = (
    *("suggestions", "keys saved %: whole", "words", "completed code %: whole", "words", "keys with a suggestion %"),
    *("right to its end, % of those", "first word right %", "wrong characters a line"),
)
WHOLE_FILE_HEADER = ("suggestions", "exact %", "first word %", "edit similarity")
GAINS_HEADER = ("suggestions", "exact %", "first word %", "edit similarity", "keys saved %: whole", "words")


def table(reports: Sequence[TypingReport]) -> str:
    """Format the figures of models measured at the same lines: in all, by cursor, by language, and in whole files."""
    first = reports[0]
    title = f"Typing {first.lines:,} lines of {first.files:,} files, {first.keys:,} keys, 95 % intervals over files"
    parts = [title, _typing(reports, lambda arm: {"": arm.typists}), *_differences(reports)]
    parts += ["By where the cursor is", _typing(reports, lambda arm: {kind: arm.kinds[kind] for kind in KINDS})]
    if len(next(iter(first.arms.values())).languages) > 1:
        parts += ["By language", _typing(reports, _by_language)]
    if any(arm.levels for report in reports for arm in report.arms.values()):
        parts += ["By the least probability of a suggestion shown (`suggestions`)", _typing(reports, _by_level)]
    if first.places:
        title = f"The rest of the line at {first.places:,} cursors in whole files, shown or not, "
        parts += [f"{title}95 % intervals over files", _whole_files(reports)]
    if any(report.gains for report in reports):
        parts += ["What knowing the repository brings, paired, 95 % intervals over files", _gains(reports)]
    return "\n\n".join(parts)


def _typing(reports: Sequence[TypingReport], parts: Callable[[TypedArm], Mapping[str, ByTypist]]) -> str:
    """Format a row for each part of each arm, the arms side by side."""
    rows = dict[str, dict[str, tuple[str, ...]]]()
    for report, arm, label in _arms(reports):
        for part, typists in parts(report.arms[arm]).items():
            rows.setdefault(part, {})[f"{part}: {label}" if part else label] = _cells(typists)
    found = [(label, *cells) for part in rows.values() for label, cells in part.items()]
    return markdown.table([TYPING_HEADER, *found])


def _cells(typists: ByTypist) -> tuple[str, ...]:
    """Return keys saved and completed code for those who take something, and what one sees who does not."""
    by_hand, whole, words = (typists[each] for each in ("by hand", "whole", "words"))
    taken = (whole.saved, words.saved, whole.completed, words.completed)
    seen = (by_hand.shown, by_hand.right, by_hand.first_word)
    return (*map(percent, taken), *map(percent, seen), cell(by_hand.wrong_characters, "{:.1f}".format))


def _by_language(arm: TypedArm) -> Mapping[str, ByTypist]:
    return {name_of(language) or "other": typists for language, typists in arm.languages.items()}


def _by_level(arm: TypedArm) -> Mapping[str, ByTypist]:
    return {f"{least:.0%}": typists for least, typists in arm.levels.items()}


def _differences(reports: Sequence[TypingReport]) -> Iterator[str]:
    for report in reports:
        for arm, typists in report.saved_more.items():
            label = _label(arm, report, reports)
            points = (f"{each} {cell(typists[each], _points)}" for each in ("whole", "words"))
            yield f"{label} less heuristic, keys saved, paired: {', '.join(points)} points"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _whole_files(reports: Sequence[TypingReport]) -> str:
    found = [(label, report.whole_files[arm]) for report, arm, label in _arms(reports)]
    rows = [
        (label, percent(each.exact), percent(each.first_word), cell(each.similarity, "{:.3f}".format))
        for label, each in found
    ]
    return markdown.table([WHOLE_FILE_HEADER, *rows])


def _gains(reports: Sequence[TypingReport]) -> str:
    rows = [
        (f"{_label(arm, report, reports)}, less {rival}", *_gain_cells(gain))
        for report in reports
        for arm, rivals in report.gains.items()
        for rival, gain in rivals.items()
    ]
    return markdown.table([GAINS_HEADER, *rows])


def _gain_cells(gain: RepositoryGain) -> tuple[str, ...]:
    places, typists = gain.whole_files, gain.saved
    return (
        *(cell(each, _points) for each in (places.exact, places.first_word)),
        cell(places.similarity, "{:+.3f}".format),
        *(cell(typists[each], _points) for each in ("whole", "words")),
    )


def _arms(reports: Sequence[TypingReport]) -> Iterator[tuple[TypingReport, str, str]]:
    """Yield every arm of every model with its label, the models side by side; the heuristic, which has none, once."""
    for arm in reports[0].arms:
        for report in reports[:1] if arm.startswith(HEURISTIC) else reports:
            yield report, arm, _label(arm, report, reports)


def _label(arm: str, report: TypingReport, reports: Sequence[TypingReport]) -> str:
    return arm if len(reports) == 1 or arm.startswith(HEURISTIC) else f"{arm}, {report.model}"
