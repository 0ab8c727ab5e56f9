"""Measures suggestions before code on the cursor's line: whether to put that code in the prompt, where to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.arms import SERVER
from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion
from efim_lab.gate.evaluation.held_out import LONGEST_COMPLETION, Progress, model_name, silent
from efim_lab.gate.evaluation.measured_model import LINE, MeasuredModel
from efim_lab.gate.evaluation.places import holes
from efim_lab.gate.evaluation.places.cursors import Context
from efim_lab.gate.evaluation.places.holes import Hole
from efim_lab.gate.evaluation.report import cell, percent
from model_runtime.engine.stops import StopRule, stop_rule, text_before_rest

UNCUT = "rest in the prompt, as the model says it"
WITH_REST = "rest in the prompt, cut where it meets it"
SERVED = "rest left out, cut where it meets it: the server"
HOLES_HEADER = ("suggestion", "exact %", "shown %", "exact of those shown %", "edit similarity")


@dataclass(frozen=True)
class HoleFigures:
    """Shares of all holes; a hole with nothing shown counts as 0. `exact_of_shown` is None if nothing is shown."""

    exact: Estimate
    shown: Estimate
    exact_of_shown: Estimate | None
    similarity: Estimate


@dataclass(frozen=True)
class InsideLineReport:
    """A model's figures by how the rest of the line is used, at the same holes; empty without holes."""

    holes: int
    ways: Mapping[str, HoleFigures]


def measure(
    folder: Path, documents: Sequence[CodeDocument], count: int, progress: Progress = silent
) -> InsideLineReport:
    """Fill up to `count` holes, determined by the documents, with the model in `folder`."""
    chosen = holes.choose_holes(documents, count)
    subject, what = MeasuredModel(folder), f"{model_name(folder)}, inside a line"
    filled: list[dict[str, str]] = []
    for done, hole in enumerate(chosen):
        progress(what, done, len(chosen))
        filled.append(_suggestions(subject, hole))
    progress(what, len(chosen), len(chosen))
    ways = {way: hole_figures(chosen, [each[way] for each in filled]) for way in filled[0]} if filled else {}
    return InsideLineReport(len(chosen), ways)


def hole_figures(chosen: Sequence[Hole], suggestions: Sequence[str]) -> HoleFigures:
    """Score suggestions, one for each hole; an empty one counts as not shown."""
    shown = [bool(text.strip()) for text in suggestions]
    exact = [metrics.is_exact(text, hole.span) for text, hole in zip(suggestions, chosen, strict=True)]
    seen = [hit for hit, is_shown in zip(exact, shown, strict=True) if is_shown]
    return HoleFigures(
        exact=proportion(exact),
        shown=proportion(shown),
        exact_of_shown=proportion(seen) if seen else None,
        similarity=mean(
            [metrics.similarity(text, hole.span) for text, hole in zip(suggestions, chosen, strict=True)]
        ),
    )


def table(reports: Mapping[str, InsideLineReport]) -> str:
    """Format the figures of models measured at the same holes in Markdown, 95 % intervals in brackets."""
    (count,) = {report.holes for report in reports.values()}
    ways = dict.fromkeys(way for report in reports.values() for way in report.ways)
    rows = [
        [f"{way}, {model}" if len(reports) > 1 else way, *_cells(report.ways[way])]
        for way in ways
        for model, report in reports.items()
    ]
    sizes = f"{holes.SHORTEST_HOLE} to {holes.LONGEST_HOLE} characters"
    title = f"Inside a line: {count:,} spans of {sizes} taken out before code"
    return f"{title}, 95 % intervals in brackets\n\n{markdown.table([HOLES_HEADER, *rows])}"


def _suggestions(subject: MeasuredModel, hole: Hole) -> dict[str, str]:
    context, rest = hole.context, hole.rest
    uncut = _generated(subject, replace(context, tail=f"{rest}\n{context.tail}"), LINE)
    served = _generated(subject, context, stop_rule(context.typed, rest, explicit=False, max_lines=1))
    return {UNCUT: uncut, WITH_REST: text_before_rest(uncut, rest), SERVED: text_before_rest(served, rest)}


def _generated(subject: MeasuredModel, context: Context, rule: StopRule) -> str:
    (prompt,) = subject.prompts(context, [SERVER], LONGEST_COMPLETION)
    return subject.complete(SERVER, prompt, rule, LONGEST_COMPLETION)


def _cells(each: HoleFigures) -> tuple[str, ...]:
    shares = (each.exact, each.shown, each.exact_of_shown)
    return *map(percent, shares), cell(each.similarity, "{:.2f}".format)
