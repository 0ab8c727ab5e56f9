"""`bench plan`: simulates shared prefill at measured or given costs; prints tables, and JSON as the last line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.held_out import model_name
from efim_lab.studies.prefill.costs import Link, PrefillCosts, read_costs
from efim_lab.studies.prefill.plot import draw
from efim_lab.studies.prefill.schedules import ways

TOKENS = 8 << 10, 32 << 10, 128 << 10
DEVICES = 1, 2, 4, 8
GIGABITS = 1.0, 10.0, 100.0, 900.0


class Planned(NamedTuple):
    """When one way of sharing a prompt's prefill is done, in seconds, and how much sooner than by one device."""

    tokens: int
    devices: int
    way: str
    gigabits: float
    seconds: float
    speedup: float


def run_plan(folder: Path, costs_path: Path | None, latency: float, picture: Path | None) -> None:
    """Simulate prefill at the costs in a file, or at the costs of the model in `folder`; draw a `picture` if asked.

    Links have a `latency` in seconds. Raises WorkError or ModelError if there are no costs.
    """
    if costs_path is not None:
        costs, head = read_costs(costs_path), {"costs_of": str(costs_path)}
        title = f"Costs of {costs_path}"
    else:
        from efim_lab.studies.prefill.measure import measure

        measured = measure(folder)
        costs, fit = measured.costs, measured.fit
        head = {"costs_of": model_name(folder), "decoder": measured.decoder, "fit": fit._asdict()}
        fixed, token, key = (1e6 * each for each in fit[:3])
        title = f"Costs of the model {model_name(folder)}, {measured.decoder}, one thread: a pass of n tokens at "
        title += f"position p takes {fixed:.0f} + {token:.1f} n + {key:.4f} n (p + n / 2) µs (±{fit.error:.0%})"
    found = planned(costs, latency)
    if picture is not None:
        draw(found, picture)
    print(f"{title}\n\n{tables(found, latency)}\n")
    print(json.dumps(figures(head, costs, latency, found)))


def planned(costs: PrefillCosts, latency: float) -> list[Planned]:
    """Return when each way is done, for all prompts, numbers of devices and links."""
    found = list[Planned]()
    for tokens in TOKENS:
        alone = costs.seconds(0, tokens)
        for devices in DEVICES[1:]:
            for name, way in ways(costs).items():
                for gigabits in GIGABITS:
                    seconds = way(costs, tokens, devices, Link(gigabits, latency))
                    found.append(Planned(tokens, devices, name, gigabits, seconds, alone / seconds))
    return found


def tables(found: Sequence[Planned], latency: float) -> str:
    """Format a Markdown table for each length of prompts: seconds, and how many times sooner than by one device."""
    header = ("devices", "shared by", *(f"{gigabits:.0f} Gbit/s" for gigabits in GIGABITS))
    parts = list[str]()
    for tokens in dict.fromkeys(each.tokens for each in found):
        of_tokens = [each for each in found if each.tokens == tokens]
        rows = dict[tuple[str, str], list[str]]()
        for each in of_tokens:
            cells = rows.setdefault((str(each.devices), each.way), [])
            cells.append(f"{each.seconds:.3f} s ({each.speedup:.2f})")
        alone = of_tokens[0].seconds * of_tokens[0].speedup
        parts.append(f"{tokens:,} tokens: {alone:.3f} s on one device; links wait {1e6 * latency:.0f} µs")
        parts.append(markdown.table([header, *((*names, *cells) for names, cells in rows.items())]))
    return "\n\n".join(parts)


def figures(head: Mapping[str, Any], costs: PrefillCosts, latency: float, found: Sequence[Planned]) -> dict[str, Any]:
    """Return all figures as a JSON object."""
    rows = [each._asdict() for each in found]
    return {**head, "costs": costs._asdict(), "latency": latency, "planned": rows}
