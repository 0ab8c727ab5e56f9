"""Formats the figures of ghosts in Markdown, 95 % intervals in brackets."""

from __future__ import annotations

from collections.abc import Mapping

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.ghosts.figures import GhostArm, GhostFigures
from efim_lab.gate.evaluation.report import percent

HEADER = (
    *("suggestions", "keys", "ghosts", "new ones per 100 keys", "wrong ones per 100 keys"),
    *("keys that show a wrong one %", "right %", "begins %", "wrong %"),
)
DETAILS_HEADER = (
    *("suggestions", "one character %", "two lines or more %", "right of those %", "make a word that is nowhere %"),
    *("right of those %", "keys before which a wrong one stands, median", "a single key %"),
)


def table(models: Mapping[str, Mapping[str, GhostArm]]) -> str:
    """Format the figures of each model's arms: in all, by the place where ghosts appear, and by level."""
    arms = {
        f"{arm}, {model}" if len(models) > 1 else arm: found
        for model, named in models.items()
        for arm, found in named.items()
    }
    whole = {label: arm.all for label, arm in arms.items()}
    places = {
        f"{place}: {label}": arm.places[place]
        for place in next(iter(arms.values())).places
        for label, arm in arms.items()
        if arm.places[place].keys
    }
    levels = {
        f"{least:.0%}: {label}": arm.levels[least]
        for least in next(iter(arms.values())).levels
        for label, arm in arms.items()
        if arm.levels
    }
    parts = ["Distinct ghost texts if none is accepted, 95 % intervals over files", _counts(whole)]
    parts.append(markdown.table([DETAILS_HEADER, *(_detail_cells(label, each) for label, each in whole.items())]))
    parts += ["By where they appear", _counts(places)]
    if levels:
        parts += ["By the least probability of a suggestion shown (`suggestions`)", _counts(levels)]
    return "\n\n".join(parts)


def _counts(rows: Mapping[str, GhostFigures]) -> str:
    return markdown.table([HEADER, *(_cells(label, each) for label, each in rows.items())])


def _cells(label: str, each: GhostFigures) -> tuple[str, ...]:
    shares = (each.new, each.new_wrong, each.under_wrong, each.right, each.begins, each.wrong)
    return label, f"{each.keys:,}", f"{each.ghosts:,}", *map(percent, shares)


def _detail_cells(label: str, each: GhostFigures) -> tuple[str, ...]:
    shares = (each.single, each.several, each.several_right, each.unknown_word, each.unknown_right)
    stands = "" if each.wrong_keys is None else f"{each.wrong_keys:g}"
    return label, *map(percent, shares), stands, percent(each.wrong_once)
