"""Measures suggestions before code on the cursor's line: whether to put that code in the prompt, where to stop.

Random spans are taken out of held-out lines with code after them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.arms import SERVER
from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion
from efim_lab.gate.evaluation.held_out import LONGEST_COMPLETION, Progress, model_name, silent
from efim_lab.gate.evaluation.measured_model import LINE, MeasuredModel
from efim_lab.gate.evaluation.places.cursors import (
    Context,
    draw_increment,
    is_word,
    line_at,
    shuffled_lines,
    window_at,
)
from efim_lab.gate.evaluation.report import cell, percent
from model_runtime.engine.stops import StopRule, is_closers, stop_rule, text_before_rest

UNCUT = "rest in the prompt, as the model says it"
WITH_REST = "rest in the prompt, cut where it meets it"
SERVED = "rest left out, cut where it meets it: the server"
HOLES_HEADER = ("suggestion", "exact %", "shown %", "exact of those shown %", "edit similarity")
SHORTEST_HOLE, LONGEST_HOLE = 2, 20  # characters of a span


@dataclass(frozen=True)
class Hole:
    """A cursor before code: `span` was taken out there, and `rest` follows it on the line."""

    context: Context
    span: str
    rest: str


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
    chosen = choose_holes(documents, count)
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
    sizes = f"{SHORTEST_HOLE} to {LONGEST_HOLE} characters"
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


def choose_holes(documents: Sequence[CodeDocument], count: int) -> list[Hole]:
    """Choose a span in each of up to `count` lines; determined by the documents, fewer are the first of more."""
    rng = random.Random(0)
    made = (_hole(document.text, row, rng) for document, row in shuffled_lines(documents, rng))
    return list(islice((hole for hole in made if hole), count))


def _hole(text: str, row: int, rng: random.Random) -> Hole | None:
    line, start = line_at(text, row)
    spans = list(_spans(line))
    if not spans:
        return None
    cursor, end = rng.choice(spans)
    context = window_at(text, start + cursor, start + len(line), draw_increment(rng))
    return Hole(context, line[cursor:end], line[end:])


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield every span that is not blank and ends before code, but not inside a word."""
    indent = len(line) - len(line.lstrip())
    for end in range(indent + SHORTEST_HOLE, len(line)):
        if not (is_word(line[end - 1]) and is_word(line[end]) or is_closers(line[end:])):
            starts = range(max(indent, end - LONGEST_HOLE), end - SHORTEST_HOLE + 1)
            yield from ((start, end) for start in starts if line[start:end].strip())
