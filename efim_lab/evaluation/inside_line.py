"""Suggestions before code on the cursor's line: whether the prompt should have it, and where they should end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from efim_lab.documents import Document
from efim_lab.evaluation.arms import SERVER
from efim_lab.evaluation.figures import markdown, metrics
from efim_lab.evaluation.figures.intervals import Estimate, mean, proportion
from efim_lab.evaluation.held_out import LONGEST_COMPLETION, Progress, model_name, silent
from efim_lab.evaluation.places import holes
from efim_lab.evaluation.places.cursors import Context
from efim_lab.evaluation.places.holes import Hole
from efim_lab.evaluation.report import cell, percent
from efim_lab.evaluation.subject import LINE, Subject
from model_runtime.engine.rest_of_line import text_before_rest
from model_runtime.engine.stops import StopRule, stop_rule

UNCUT = "rest in the prompt, as the model says it"
WITH_REST = "rest in the prompt, cut where it meets it"
SERVED = "rest left out, cut where it meets it: the server"
HEADER = ("suggestion", "exact %", "shown %", "exact of those shown %", "edit similarity")


@dataclass(frozen=True)
class Figures:
    """All but `exact_of_shown` are of all holes, and what is not shown counts as 0; it is None where nothing is."""

    exact: Estimate
    shown: Estimate
    exact_of_shown: Estimate | None
    similarity: Estimate


@dataclass(frozen=True)
class Report:
    """A model's figures by what becomes of the rest of the line, at the same holes; none where there are no holes."""

    holes: int
    ways: Mapping[str, Figures]


def measure(folder: Path, documents: Sequence[Document], count: int, progress: Progress = silent) -> Report:
    """Fill up to `count` holes, which depend on the documents alone, with the model in `folder`."""
    chosen = holes.choose(documents, count)
    subject, what = Subject(folder), f"{model_name(folder)}, inside a line"
    filled: list[dict[str, str]] = []
    for done, hole in enumerate(chosen):
        progress(what, done, len(chosen))
        filled.append(_suggestions(subject, hole))
    progress(what, len(chosen), len(chosen))
    ways = {way: figures(chosen, [each[way] for each in filled]) for way in filled[0]} if filled else {}
    return Report(len(chosen), ways)


def figures(chosen: Sequence[Hole], suggestions: Sequence[str]) -> Figures:
    """Score suggestions, one for each hole; an empty one is not shown."""
    shown = [bool(text.strip()) for text in suggestions]
    exact = [metrics.is_exact(text, hole.span) for text, hole in zip(suggestions, chosen, strict=True)]
    seen = [hit for hit, is_shown in zip(exact, shown, strict=True) if is_shown]
    return Figures(
        exact=proportion(exact),
        shown=proportion(shown),
        exact_of_shown=proportion(seen) if seen else None,
        similarity=mean(
            [metrics.similarity(text, hole.span) for text, hole in zip(suggestions, chosen, strict=True)]
        ),
    )


def table(reports: Mapping[str, Report]) -> str:
    """All figures in Markdown, 95 % intervals in brackets; of several models measured at the same holes."""
    (count,) = {report.holes for report in reports.values()}
    ways = dict.fromkeys(way for report in reports.values() for way in report.ways)
    rows = [
        [f"{way}, {model}" if len(reports) > 1 else way, *_cells(report.ways[way])]
        for way in ways
        for model, report in reports.items()
    ]
    title = f"Inside a line: {count:,} spans of {holes.SHORTEST} to {holes.LONGEST} characters taken out before code"
    return f"{title}, 95 % intervals in brackets\n\n{markdown.table([HEADER, *rows])}"


def _suggestions(subject: Subject, hole: Hole) -> dict[str, str]:
    context, rest = hole.context, hole.rest
    said = _said(subject, replace(context, tail=f"{rest}\n{context.tail}"), LINE)
    served = _said(subject, context, stop_rule(context.typed, rest, explicit=False, max_lines=1))
    return {UNCUT: said, WITH_REST: text_before_rest(said, rest), SERVED: text_before_rest(served, rest)}


def _said(subject: Subject, context: Context, rule: StopRule) -> str:
    (prompt,) = subject.prompts(context, [SERVER], LONGEST_COMPLETION)
    return subject.complete(SERVER, prompt, rule, LONGEST_COMPLETION)


def _cells(each: Figures) -> tuple[str, ...]:
    shares = (each.exact, each.shown, each.exact_of_shown)
    return *map(percent, shares), cell(each.similarity, "{:.2f}".format)
