"""Draws what each method of composition and each policy saves, and how far it is from full attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from efim_lab.studies.reuse.methods.composition import EXACT
from efim_lab.studies.reuse.report import ReuseReport

MARKS = {"context": "o", "formatter": "s", "branch": "^", "jump": "D"}
COLORS = ("#222222", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00", "#666666", "#0072b2")
SHARES = {"25%": "#d55e00", "50%": "#0072b2"}
DIVERGENCE = "divergence from full attention, nats"
LEAST = 1e-5  # nats: below it two distributions count as equal


def draw(report: ReuseReport, path: Path) -> None:
    """Draw both measurements as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    _composition(left, report)
    _budgets(right, report)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)  # pyright: ignore[reportUnknownMemberType]
    pyplot.close(figure)


def _composition(axes: Any, report: ReuseReport) -> None:
    methods = list(dict.fromkeys(method for _, method in report.composition))
    for (changed, method), each in report.composition.items():
        if changed in MARKS and method != EXACT:
            color, label = COLORS[methods.index(method) % len(COLORS)], method if changed == "context" else None
            share = 100 * each.recomputed / each.tokens
            axes.plot(share, max(each.kl, LEAST), MARKS[changed], color=color, label=label)
    _dress(axes, "Composition: circle context, square formatter, triangle branch, diamond jump")
    axes.set_yscale("log")
    axes.set_xlabel("tokens recomputed, %")
    axes.set_ylabel(DIVERGENCE)
    axes.legend(frameon=False, fontsize=7)


def _budgets(axes: Any, report: ReuseReport) -> None:
    worst: dict[str, float] = {}
    for (_, name), each in report.budgets.items():
        worst[name] = max(worst.get(name, LEAST), each.kl)
    names = sorted(worst, key=lambda name: worst[name])
    whole = max(each.bytes for each in report.budgets.values())
    for (share, name), each in report.budgets.items():
        color, at = SHARES.get(share, COLORS[2]), max(each.kl, LEAST)
        axes.plot(at, names.index(name), "o", color=color, markersize=4)
        axes.annotate(f" {100 * each.bytes / whole:.0f}", (at, names.index(name)), fontsize=6, color=color)
    _dress(axes, "Context under a budget: bytes kept, %")
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel(DIVERGENCE)


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9, fontweight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
