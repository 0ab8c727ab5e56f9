"""The tables of a measurement of reuse, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.report import percent
from efim_lab.studies.reuse.figures import Measured, Summary, summary

Found = Mapping[tuple[str, str], Sequence[Measured]]
COMPOSITION = ("changed", "method", "recomputed", "reused %", "ms")
BUDGETS = ("budget", "policy", "bytes %", "ms")
PAIR = ("keys and values", "computed again %")
COMMON = ("KL, nats", "KL p95", "same greedy %", "exact %")
KIB = 1 << 10


@dataclass(frozen=True)
class ReuseReport:
    """The summaries of all methods by what changed, and of all policies by budget."""

    model: str
    data: str
    places: int
    decoder: str
    composition: Mapping[tuple[str, str], Summary]
    budgets: Mapping[tuple[str, str], Summary]


def summaries(found: Found) -> dict[tuple[str, str], Summary]:
    """Sum up all methods."""
    return {names: summary(each) for names, each in found.items()}


def tables(report: ReuseReport) -> str:
    """Format both tables in Markdown; policies of a budget are sorted by their divergence."""
    composed = [
        (changed, method, f"{each.recomputed:.0f} of {each.tokens:.0f}", _percent(1 - each.recomputed / each.tokens))
        + (f"{each.ms:.1f}", *_common(each))
        for (changed, method), each in report.composition.items()
    ]
    whole = max((each.bytes for each in report.budgets.values()), default=1.0)
    ordered = sorted(report.budgets.items(), key=lambda pair: (pair[0][0], pair[1].kl))
    kept = [
        (share, name, _percent(each.bytes / whole), f"{each.ms:.0f}", *_common(each))
        for (share, name), each in ordered
    ]
    title = f"{report.places} cursors, {report.model}, {report.decoder}; 95 % intervals over files in brackets"
    parts = (
        title,
        markdown.table([(*COMPOSITION, *COMMON), *composed]),
        f"Context under a budget; all rows take {whole / KIB:.0f} KiB",
        markdown.table([(*BUDGETS, *COMMON), *kept]),
    )
    return "\n\n".join(parts)


def pair_table(found: Mapping[tuple[str, str], Summary], places: int) -> str:
    """Format in Markdown what a tuned model makes of its base's keys and values."""
    rows = [(name, _percent(each.recomputed / each.tokens), *_common(each)) for (_, name), each in found.items()]
    title = f"{places} cursors; 95 % intervals over files in brackets"
    return f"{title}\n\n{markdown.table([(*PAIR, *COMMON), *rows])}"


def pair_as_json(found: Mapping[tuple[str, str], Summary]) -> list[dict[str, object]]:
    """Return the figures of a pair of models for JSON."""
    return _rows("what", "whose", found)


def as_json(report: ReuseReport) -> dict[str, object]:
    """Return all figures as a JSON object."""
    return {
        "model": report.model,
        "data": report.data,
        "places": report.places,
        "decoder": report.decoder,
        "composition": _rows("changed", "method", report.composition),
        "budgets": _rows("budget", "policy", report.budgets),
    }


def _rows(first: str, second: str, found: Mapping[tuple[str, str], Summary]) -> list[dict[str, object]]:
    return [{first: one, second: two, **asdict(each)} for (one, two), each in found.items()]


def _common(each: Summary) -> tuple[str, ...]:
    return f"{each.kl:.4f}", f"{each.kl_p95:.4f}", _percent(each.same), percent(each.exact)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
