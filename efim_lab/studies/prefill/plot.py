"""Draws how much sooner devices that share a prompt's prefill are done than one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from efim_lab.studies.prefill.plan import Planned

COLORS = ("#222222", "#0072b2", "#009e73", "#d55e00", "#cc79a7")
LINES = ("-", "--", "-.", ":")  # the fastest link first


def draw(found: Sequence[Planned], path: Path) -> None:
    """Draw a panel for each length of prompts, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lengths = sorted({each.tokens for each in found})
    figure, panels = pyplot.subplots(
        1, len(lengths), figsize=(4 * len(lengths), 4), sharey=True, layout="constrained"
    )
    for axes, tokens in zip(panels, lengths, strict=True):
        _panel(axes, [each for each in found if each.tokens == tokens])
        axes.set_title(f"{tokens:,} tokens", fontsize=9, fontweight="bold", loc="left")
    panels[0].set_ylabel("times as fast as one device")
    panels[0].legend(frameon=False, fontsize=6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)  # pyright: ignore[reportUnknownMemberType]
    pyplot.close(figure)


def _panel(axes: Any, found: Sequence[Planned]) -> None:
    """Draw a line over numbers of devices for each way and link."""
    ways = list(dict.fromkeys(each.way for each in found))
    links = sorted({each.gigabits for each in found}, reverse=True)
    devices = [1, *sorted({each.devices for each in found})]
    axes.plot(devices, devices, color="#cccccc", linewidth=1)
    for color, way in zip(COLORS, ways, strict=False):
        for line, gigabits in zip(LINES, links, strict=True):
            speedups = [each.speedup for each in found if (each.way, each.gigabits) == (way, gigabits)]
            label = f"{way}, {gigabits:.0f} Gbit/s"
            axes.plot(devices, [1, *speedups], line, color=color, linewidth=1.2, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(devices, list(map(str, devices)))
    axes.set_xlabel("devices")
    axes.spines[["top", "right"]].set_visible(False)
