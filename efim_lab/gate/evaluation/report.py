"""The figures measured on held-out lines, by arm, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion, ratio
from efim_lab.gate.evaluation.places.cursors import CursorPlace

HEURISTIC = "heuristic"  # the only arm without a model
ARMS_HEADER = (
    *("prompt", "exact %", "inside a word %", "elsewhere %", "first word %", "edit similarity", "bits/character"),
    *("recomputed/key", "median"),
)


@dataclass(frozen=True)
class ArmFigures:
    """One arm's figures; `exact` also for cursors inside a word and elsewhere, None if there are none.

    `recomputed` is the mean number of tokens recomputed per key of the cursors' lines; the median is of all keys.
    """

    exact: Estimate
    exact_inside: Estimate | None
    exact_elsewhere: Estimate | None
    first_word: Estimate
    similarity: Estimate
    bits_per_character: Estimate | None
    recomputed: Estimate | None
    recomputed_median: float | None


@dataclass(frozen=True)
class CompletionSample:
    """A line up to the cursor, its true rest, and the server's suggestion."""

    typed: str
    rest: str
    completion: str


@dataclass(frozen=True)
class HeldOutReport:
    """A model's figures by arm; `efim_minus_fim` is the paired difference of the two published prompts in `exact`."""

    model: str
    lines: int
    arms: Mapping[str, ArmFigures]
    efim_minus_fim: Estimate
    samples: tuple[CompletionSample, ...]


def arm_figures(
    places: Sequence[CursorPlace],
    completions: Sequence[str],
    bits: Sequence[float] | None,
    costs: Sequence[Sequence[int]] = (),
) -> ArmFigures:
    """Score an arm's completions, one for each place; `costs` are the tokens recomputed at each key of its line."""
    lines = [line for line in costs if line]
    strokes = [cost for line in lines for cost in line]
    rests, typed = [place.rest for place in places], [place.context.typed for place in places]
    exact = list(map(metrics.is_exact, completions, rests))
    inside = [hit for hit, place in zip(exact, places, strict=True) if place.inside_word]
    elsewhere = [hit for hit, place in zip(exact, places, strict=True) if not place.inside_word]
    return ArmFigures(
        exact=proportion(exact),
        exact_inside=proportion(inside) if inside else None,
        exact_elsewhere=proportion(elsewhere) if elsewhere else None,
        first_word=proportion(list(map(metrics.is_first_word_right, completions, rests, typed))),
        similarity=mean(list(map(metrics.similarity, completions, rests))),
        bits_per_character=ratio(bits, [len(rest) for rest in rests]) if bits else None,
        recomputed=ratio(list(map(sum, lines)), list(map(len, lines))) if strokes else None,
        recomputed_median=median(strokes) if strokes else None,
    )


def exact_difference(places: Sequence[CursorPlace], ours: Sequence[str], theirs: Sequence[str]) -> Estimate:
    """Return the difference in exact completions, ours less theirs, paired by place."""
    rests = [place.rest for place in places]
    hits = zip(map(metrics.is_exact, ours, rests), map(metrics.is_exact, theirs, rests), strict=True)
    return mean([float(our) - float(their) for our, their in hits])


def as_json(report: HeldOutReport) -> dict[str, object]:
    """Return the figures as a JSON object, without the samples."""
    return {name: value for name, value in asdict(report).items() if name != "samples"}


def table(*reports: HeldOutReport) -> str:
    """Format the figures of models measured at the same places in Markdown, 95 % intervals in brackets."""
    rows = {_label(name, report, reports): _cells(report.arms[name]) for name, report in _by_arm(reports)}
    body = markdown.table([ARMS_HEADER, *((label, *row) for label, row in rows.items())])
    title = f"{reports[0].lines:,} held-out lines, 95 % intervals in brackets"
    return "\n\n".join((title, body, *(_difference(report, reports) for report in reports)))


def samples(report: HeldOutReport) -> str:
    """Format the samples as a Markdown table."""
    rows = [map(markdown.code, (each.typed, each.rest, each.completion)) for each in report.samples]
    return markdown.table([("line up to the cursor", "its rest", "suggested"), *map(tuple, rows)])


def percent(estimate: Estimate | None) -> str:
    """Format a share in percent with its interval."""
    return cell(estimate, lambda value: f"{100 * value:.1f}")


def cell(estimate: Estimate | None, shown: Callable[[float], str]) -> str:
    """Format a figure and its interval; empty for None."""
    if estimate is None:
        return ""
    return f"{shown(estimate.value)} [{shown(estimate.low)}, {shown(estimate.high)}]"


def _by_arm(reports: Sequence[HeldOutReport]) -> list[tuple[str, HeldOutReport]]:
    """List every arm of every model, the models side by side."""
    names = dict.fromkeys(name for report in reports for name in report.arms)
    return [(name, report) for name in names for report in reports if name in report.arms]


def _label(name: str, report: HeldOutReport, reports: Sequence[HeldOutReport]) -> str:
    return name if len(reports) == 1 or name == HEURISTIC else f"{name}, {report.model}"


def _difference(report: HeldOutReport, reports: Sequence[HeldOutReport]) -> str:
    points = cell(report.efim_minus_fim, lambda value: f"{100 * value:+.1f}")
    return f"{_label('EFIM less FIM', report, reports)}, exact, paired: {points} points"


def _cells(each: ArmFigures) -> tuple[str, ...]:
    shares = (each.exact, each.exact_inside, each.exact_elsewhere, each.first_word)
    scores = (cell(e, "{:.2f}".format) for e in (each.similarity, each.bits_per_character))
    middle = "" if each.recomputed_median is None else f"{each.recomputed_median:.0f}"
    return *map(percent, shares), *scores, cell(each.recomputed, "{:.2f}".format), middle
