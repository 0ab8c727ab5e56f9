"""How sure the model must be of what is shown at a place, for what the user has chosen in words or as a number."""

from __future__ import annotations

from collections.abc import Mapping

from efim_ls.completion.filters.place import Place
from efim_ls.request import Preset

# Below it a server looks for code that may help: no preset shows what is so unlikely, so no suggestion is spoilt.
# Four of five retrievals change nothing or harm (arXiv 2403.10059), and the model's own doubt tells which.
UNSURE = 0.2
LEVELS: Mapping[Preset, float] = {"more": 0.2, "balanced": 0.35, "sure": 0.6}


def least_at(level: float | Preset, place: Place) -> float:
    """Return the least probability of what is shown at a place; a number is the same everywhere."""
    return LEVELS[level] if isinstance(level, str) else level
