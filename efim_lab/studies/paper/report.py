"""Formats the figures next to the paper's, as a table for people and as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.table import Table

from efim_lab.studies.paper.experiment import PAPER, REPEATS, SchemeFigures
from efim_lab.studies.paper.prompts import NO_REUSE, Scheme

Found = Mapping[Scheme, SchemeFigures]


class ExperimentSetup(NamedTuple):
    """The set-up of an experiment; `prompt_tokens` is the mean, `longest` the limit of a text in tokens."""

    model: str
    device: str
    decoder: str
    data: str
    users: int
    rounds: int
    tokens: int
    longest: int
    prompt_tokens: float
    context: int


def table(setup: ExperimentSetup, found: Found) -> Table:
    """Format a row for each scheme; changes are relative to no reuse."""
    table = Table(title=_title(setup), title_justify="left", caption=_caption(setup), caption_justify="left")
    table.add_column("scheme")
    for name in ("latency, s", "p95", "change", "paper", "requests/s", "change", "paper", "KV reused", "paper"):
        table.add_column(name, justify="right")
    for scheme, figures in found.items():
        table.add_row(*_row(scheme, figures, found[NO_REUSE]))
    return table


def as_json(setup: ExperimentSetup, found: Found) -> dict[str, Any]:
    """Return the set-up and every scheme's figures, with changes relative to no reuse."""
    schemes = {
        scheme.name: asdict(figures)
        | dict(zip(("latency_change", "throughput_change"), _changes(figures, found[NO_REUSE]), strict=True))
        | {"paper": asdict(PAPER[scheme]) if scheme in PAPER else None}
        for scheme, figures in found.items()
    }
    return setup._asdict() | {"repeats": REPEATS, "schemes": schemes}


def _row(scheme: Scheme, figures: SchemeFigures, base: SchemeFigures) -> tuple[str, ...]:
    latency, throughput = (f"{change:+.0%}" for change in _changes(figures, base))
    paper = PAPER.get(scheme)
    return (
        scheme.name,
        f"{figures.latency:.2f}",
        f"{figures.latency_p95:.2f}",
        latency if paper else "",
        f"{paper.latency:+.0%}" if paper else "",
        f"{figures.throughput:.2f}",
        throughput if paper else "",
        f"{paper.throughput:+.0%}" if paper else "",
        f"{figures.reused:.0%}",
        paper.reused if paper else "",
    )


def _changes(figures: SchemeFigures, base: SchemeFigures) -> tuple[float, float]:
    return figures.latency / base.latency - 1, figures.throughput / base.throughput - 1


def _title(setup: ExperimentSetup) -> str:
    asked = f"{setup.users} users x {setup.rounds} rounds, {setup.tokens} new tokens each, medians of {REPEATS} runs"
    return f"{asked}\nmodel {setup.model}, {setup.decoder} on {setup.device}; all users' next tokens in one pass"


def _caption(setup: ExperimentSetup) -> str:
    sizes = f"texts of {setup.longest // 2:,} to {setup.longest:,} tokens from {setup.data}"
    return (
        f"{sizes} (the model's context is {setup.context:,}), prompts of {setup.prompt_tokens:,.0f} on average; "
        "the paper: 2,048 to 4,096 and 2,355, models of 7B and 8B on an A100 (arXiv 2505.21889)"
    )
