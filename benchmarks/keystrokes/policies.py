"""Counts the tokens recomputed at every keystroke of a recorded session by prompt order, and draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import show
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.policies import POLICIES, count_radix_rows, count_rows
from efim_lab.gate.replay.report import KeystrokeRow, summary
from efim_ls.completion.planning.window import Budget

FOREGROUND = ("mean", "p50", "p90", "p95", "p99")
HEADER = ("policy", "mean in all", "foreground", *FOREGROUND[1:], "background", "given up", "re-anchors")
# The other orders once more, as by a server that keeps as many tokens as we do and reuses any of their beginnings.
RADIX = {f"{policy}, radix": policy for policy in ("psm", "spm", "efim-paper")}
COMPARED = ("psm", "efim-paper", *RADIX)

# The other orders as a server with a radix cache computes them: their best.
LABELS = {
    "psm, radix": "FIM",
    "spm, radix": "FIM, suffix first",
    "efim-paper, radix": "EFIM as published",
    "efim": "efim-ls",
}
INK, AHEAD, WAITED = "#222222", "#a6cee8", "#0072b2"
# The least tokens of each kind of keystroke: the darker, the more; dark and light differ for every eye.
KINDS = ((0, "none", "#e4e4e4"), (1, "1 to 9", "#7fc0ea"), (10, "10 and more", "#d55e00"))
THIN = 6  # percent: no number fits into a thinner part of a bar
HEIGHT = 0.62


def measure(recorded: trace.Trace, name: str, picture: Path | None) -> dict[str, Any]:
    """Count every policy on one trace, with the same budgets and windows; draw it where a path is given (PNG)."""
    rows = {policy: list(count_rows(trace.keystrokes(recorded), policy, Budget())) for policy in POLICIES}
    for row, policy in RADIX.items():
        rows[row] = list(count_radix_rows(trace.keystrokes(recorded), policy, Budget()))
    figures = {policy: summary(policy, found) for policy, found in rows.items()}
    title = f"{name}: tokens recomputed per keystroke, {len(rows['efim']):,} keystrokes"
    show(title, HEADER, [_line(each) for each in figures.values()])
    if picture:
        draw({policy: rows[policy] for policy in LABELS}, picture)
    return {"trace": name, "figures": figures, "ratios": {f"{p}/efim": _ratios(figures, p) for p in COMPARED}}


def _line(figures: dict[str, Any]) -> list[object]:
    foreground, background = figures["foreground"], figures["background"]
    ranks = [foreground[name] for name in FOREGROUND]
    means = [background["mean"], background["wasted_mean"]]
    return [figures["policy"], figures["recomputed"]["mean"], *ranks, *means, figures["reanchors"]]


def _ratios(figures: dict[str, dict[str, Any]], policy: str) -> dict[str, float]:
    """Return how many times efim's tokens a policy recomputes, in all and while the user waits."""
    return {k: figures[policy][k]["mean"] / figures["efim"][k]["mean"] for k in ("recomputed", "foreground")}


def draw(rows: Mapping[str, Sequence[KeystrokeRow]], path: Path) -> None:
    """Draw the policies of LABELS as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with pyplot.rc_context({"font.size": 10, "text.color": INK}):
        layout = ConstrainedLayoutEngine(wspace=0.05)
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout=layout)
        for at, policy in enumerate(LABELS):
            _means(left, at, rows[policy])
            _shares(right, at, rows[policy])
        _dress(left, "Tokens recomputed per keystroke, mean")
        _dress(right, "Keystrokes, by the tokens they wait for")
        left.set_yticks(range(len(LABELS)), LABELS.values(), color=INK)
        left.invert_yaxis()
        _explain(right)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160)
        pyplot.close(figure)


def _means(axes: Any, at: int, rows: Sequence[KeystrokeRow]) -> None:
    waited = sum(row.recomputed for row in rows) / len(rows)
    total = waited + sum(row.ahead for row in rows) / len(rows)
    axes.barh(at, total, HEIGHT, color=AHEAD)
    axes.barh(at, waited, HEIGHT, color=WAITED)
    note = f" {total:.0f}" if total == waited else f" {total:.0f}, of which {waited:.0f} are waited for"
    axes.text(total, at, note, va="center")


def _shares(axes: Any, at: int, rows: Sequence[KeystrokeRow]) -> None:
    least = [kind[0] for kind in KINDS]
    reached = [100 * sum(row.recomputed >= tokens for row in rows) / len(rows) for tokens in least] + [0]
    for (_, _, color), start, end in zip(KINDS, reached, reached[1:], strict=False):
        axes.barh(at, start - end, HEIGHT, left=100 - start, color=color)
        if start - end >= THIN:
            axes.text(100 - (start + end) / 2, at, f"{start - end:.0f}%", va="center", ha="center")
    if 0 < reached[-2] < THIN:
        axes.text(101, at, f"{reached[-2]:.1f}%", va="center")


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
    axes.set_xticks([])
    axes.tick_params(left=False)
    axes.spines[:].set_visible(False)


def _explain(axes: Any) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=color, label=label) for _, label, color in KINDS]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(-0.02, 0), ncols=3, frameon=False, handlelength=1)
