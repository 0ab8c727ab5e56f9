"""The figures of a repository's measurement by kind of place and arm, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.report import cell, percent
from efim_lab.gate.evaluation.typist.figures import estimate
from efim_lab.studies.repository.arms import ALONE, RepositoryArm
from efim_lab.studies.repository.data import RepositoryFiles
from efim_lab.studies.repository.measurement import PlaceScore
from efim_lab.studies.repository.places import KINDS

UNKNOWN = "first use, not known alone"
TITLES = {
    "first use": "first use of a name from the project",
    "inproject": "a line with a name from the project",
    "infile": "a line with a name from its own file",
    "common": "any other line",
    "chunk": "a chunk of lines",
}
SCORES_HEADER = ("edit similarity", "identifier F1", "bits/character")
HEADER = ("places", "knows", "exact %", *SCORES_HEADER, "recomputed/key", "prompt")
GAINS_HEADER = ("places", "knows", "exact, points", *SCORES_HEADER)

SCORES: tuple[Callable[[PlaceScore], float], ...] = (
    lambda score: float(score.is_exact),
    lambda score: metrics.similarity(score.suggested.strip(), score.place.target),
    lambda score: metrics.identifier_f1(score.suggested, score.place.target),
)


@dataclass(frozen=True)
class PlaceFigures:
    """Shares and means over places, intervals over files; of two arms at the same places, their paired differences.

    `recomputed` is the mean number of tokens that a key waits for while the target is typed, `prompt` the mean number
    of tokens in the first prompt at a place; None if no place was typed.
    """

    exact: Estimate | None
    similarity: Estimate | None
    identifier_f1: Estimate | None
    bits_per_character: Estimate | None
    recomputed: Estimate | None = None
    prompt: float | None = None


@dataclass(frozen=True)
class KindFigures:
    """The figures of one kind of place by arm; `gains` are what an arm has more than another, by both names."""

    places: int
    files: int
    arms: Mapping[str, PlaceFigures]
    gains: Mapping[str, PlaceFigures]


@dataclass(frozen=True)
class RepositoryReport:
    """A model's figures by kind of place; one kind are the first uses that the file alone does not complete."""

    model: str
    kinds: Mapping[str, KindFigures]


def report(model: str, scores: Mapping[RepositoryArm, Sequence[PlaceScore]]) -> RepositoryReport:
    """Score the suggestions of each arm, all at the same places; the file alone is one of them."""
    alone = scores[ALONE]
    chosen = {kind: [score.place.kind == kind for score in alone] for kind in (KINDS[0], UNKNOWN, *KINDS[1:])}
    chosen[UNKNOWN] = [score.place.kind == KINDS[0] and not score.is_exact for score in alone]
    return RepositoryReport(model, {kind: _kind(scores, each) for kind, each in chosen.items() if any(each)})


def _kind(scores: Mapping[RepositoryArm, Sequence[PlaceScore]], chosen: Sequence[bool]) -> KindFigures:
    arms = {
        arm.name: [each for each, wanted in zip(found, chosen, strict=True) if wanted]
        for arm, found in scores.items()
    }
    compared = [(arm.name, arm.less) for arm in scores if arm.less in arms]
    return KindFigures(
        places=len(arms[ALONE.name]),
        files=len({score.place.document.path for score in arms[ALONE.name]}),
        arms={arm: _figures(found) for arm, found in arms.items()},
        gains={f"{ours}, less {theirs}": _gain(arms[ours], arms[theirs]) for ours, theirs in compared},
    )


def _figures(scores: Sequence[PlaceScore]) -> PlaceFigures:
    exact, similarity, f1 = (_mean(scores, [value(score) for score in scores]) for value in SCORES)
    keys = [(score.place.document.path, float(sum(score.keystrokes)), len(score.keystrokes)) for score in scores]
    prompts = [score.prompt for score in scores if score.prompt is not None]
    return PlaceFigures(
        exact,
        similarity,
        f1,
        bits_per_character=_bits(scores, [score.bits for score in scores]),
        recomputed=estimate(keys),
        prompt=fmean(prompts) if prompts else None,
    )


def _gain(ours: Sequence[PlaceScore], theirs: Sequence[PlaceScore]) -> PlaceFigures:
    pairs = list(zip(ours, theirs, strict=True))
    exact, similarity, f1 = (_mean(ours, [value(our) - value(their) for our, their in pairs]) for value in SCORES)
    return PlaceFigures(exact, similarity, f1, _bits(ours, [our.bits - their.bits for our, their in pairs]))


def _mean(scores: Sequence[PlaceScore], values: Sequence[float]) -> Estimate | None:
    return estimate([(score.place.document.path, value, 1) for score, value in zip(scores, values, strict=True)])


def _bits(scores: Sequence[PlaceScore], bits: Sequence[float]) -> Estimate | None:
    lengths = [(score.place.document.path, len(score.place.target)) for score in scores]
    return estimate([(path, each, length) for (path, length), each in zip(lengths, bits, strict=True)])


def table(repositories: Sequence[RepositoryFiles], reports: Sequence[RepositoryReport]) -> str:
    """Format the figures of models measured at the same places in Markdown, 95 % intervals over files in brackets."""
    names = (f"{each.name} {each.version}".strip() for each in repositories)
    title = f"Places in {', '.join(names)}, 95 % intervals over files in brackets"
    measured = [row for each in reports for row in _rows(each, reports, lambda kind: kind.arms, _cells)]
    gained = [row for each in reports for row in _rows(each, reports, lambda kind: kind.gains, _gain_cells)]
    parts = [title, markdown.table([HEADER, *measured])]
    if gained:
        parts += ["What an arm knows more than another, paired", markdown.table([GAINS_HEADER, *gained])]
    return "\n\n".join(parts)


def as_json(report: RepositoryReport) -> dict[str, object]:
    """Return the figures as a JSON object."""
    return asdict(report)


def _rows(
    report: RepositoryReport,
    reports: Sequence[RepositoryReport],
    arms_of: Callable[[KindFigures], Mapping[str, PlaceFigures]],
    cells: Callable[[PlaceFigures], tuple[str, ...]],
) -> list[tuple[str, ...]]:
    return [
        (f"{_title(kind)}, {found.places}", arm if len(reports) == 1 else f"{arm}, {report.model}", *cells(figures))
        for kind, found in report.kinds.items()
        for arm, figures in arms_of(found).items()
    ]


def _title(kind: str) -> str:
    return TITLES.get(kind, f"those that {ALONE.name} does not complete")


def _cells(each: PlaceFigures) -> tuple[str, ...]:
    scores = (each.similarity, each.identifier_f1, each.bits_per_character, each.recomputed)
    prompt = "" if each.prompt is None else f"{each.prompt:.0f}"
    return percent(each.exact), *(cell(score, "{:.2f}".format) for score in scores), prompt


def _gain_cells(each: PlaceFigures) -> tuple[str, ...]:
    scores = (each.similarity, each.identifier_f1, each.bits_per_character)
    points = cell(each.exact, lambda value: f"{100 * value:+.1f}")
    return points, *(cell(score, "{:+.3f}".format) for score in scores)
