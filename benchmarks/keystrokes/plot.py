"""Draws recomputed tokens per keystroke: what each policy costs, and how many keystrokes wait for how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from efim_lab.gate.replay.report import KeystrokeRow

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
