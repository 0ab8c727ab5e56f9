"""The figures of suggestions asked for by a key, as tables and plain values; 95 % intervals over files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from efim_lab.gate.evaluation.by_key.measurement import ARMS, KeyAnswer
from efim_lab.gate.evaluation.by_key.places import KINDS
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.report import percent
from efim_lab.gate.evaluation.typist.figures import estimate

HEADER = (
    *("places, arm", "places", "texts", "different first lines", "right first %", "right in any %"),
    *("unfinished %", "head of a block %", "said again %", "invented import %"),
    *("ms, median", "of these for the others"),
)


@dataclass(frozen=True)
class KeyFigures:
    """The figures of an arm at places of a kind.

    `texts` came; `distinct` is the mean number of different first lines at a place. Shares: of places where
    the first line is `right_first` or `right_in_any`, and of texts that are `unfinished`, end with the head
    of a block, are `said_again`, or have an `invented` import. Milliseconds are medians over places.
    """

    places: int
    texts: int
    distinct: float
    right_first: Estimate | None
    right_in_any: Estimate | None
    unfinished: Estimate | None
    heads: Estimate | None
    said_again: Estimate | None
    invented: Estimate | None
    milliseconds: float
    beyond_first: float


def key_figures(answers: Sequence[KeyAnswer], wanted: int) -> dict[str, KeyFigures]:
    """Return the figures by kind of place and arm, all kinds together last."""
    kinds = {**{kind: (kind,) for kind in KINDS}, "all": KINDS}
    return {
        f"{name}, {arm}": _figures(chosen, wanted)
        for name, some in kinds.items()
        for arm in ARMS
        if (chosen := [each for each in answers if each.place.kind in some and each.arm == arm])
    }


def table(models: Mapping[str, Mapping[str, KeyFigures]]) -> str:
    """Format the figures of models."""
    rows = [
        _cells(f"{name}, {model}" if len(models) > 1 else name, each)
        for model, figures in models.items()
        for name, each in figures.items()
    ]
    return f"Asked for by a key, 95 % intervals over files\n\n{markdown.table([HEADER, *rows])}"


def _figures(answers: Sequence[KeyAnswer], wanted: int) -> KeyFigures:
    def places(hit: Callable[[KeyAnswer], bool]) -> Estimate | None:
        return estimate([(each.place.line.document.path, hit(each), 1) for each in answers])

    def texts(judged: Callable[[KeyAnswer], Sequence[bool]]) -> Estimate | None:
        return estimate([(each.place.line.document.path, sum(judged(each)), len(each.texts)) for each in answers])

    return KeyFigures(
        places=len(answers),
        texts=sum(len(each.texts) for each in answers),
        distinct=fmean(each.distinct for each in answers),
        right_first=places(lambda each: each.is_right(1)),
        right_in_any=places(lambda each: each.is_right(wanted)),
        unfinished=texts(lambda each: each.unfinished),
        heads=texts(lambda each: each.heads),
        said_again=texts(lambda each: each.again),
        invented=texts(lambda each: each.invented),
        milliseconds=median(each.milliseconds for each in answers),
        beyond_first=median(each.beyond_first for each in answers),
    )


def _cells(label: str, each: KeyFigures) -> tuple[str, ...]:
    shares = (each.right_first, each.right_in_any, each.unfinished, each.heads, each.said_again, each.invented)
    costs = f"{each.milliseconds:.0f}", f"{each.beyond_first:.0f}"
    return label, f"{each.places:,}", f"{each.texts:,}", f"{each.distinct:.2f}", *map(percent, shares), *costs
