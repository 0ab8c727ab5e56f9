"""How sure the first word of a suggestion must be, by the kind of place and by what the user has chosen."""

from __future__ import annotations

from collections.abc import Mapping

from efim_ls.completion.suggestions.place_kind import PlaceKind
from efim_ls.request import Preset

# Below it a server looks for code that may help: no preset shows what is so unlikely, so no suggestion is spoilt.
# Four of five retrievals change nothing or harm (arXiv 2403.10059), and the model's own doubt tells which.
UNSURE = 0.2
LEVELS: Mapping[Preset, float] = {"more": 0.4, "balanced": 0.6, "sure": 0.75}
# What some kinds of places need beyond that.
MORE: Mapping[PlaceKind, float] = {}


def least_at(level: float | Preset, kind: PlaceKind) -> float:
    """Return how sure it must be at a kind of place; a number is the same everywhere."""
    return LEVELS[level] + MORE.get(kind, 0.0) if isinstance(level, str) else level
