"""How sure the first word of a suggestion must be, by what the user has chosen in words."""

from __future__ import annotations

from collections.abc import Mapping

from efim_ls.request import Preset

# Below it a server looks for code that may help: no preset shows such unlikely text, so no suggestion is spoilt.
# Four of five retrievals change nothing or harm (arXiv 2403.10059), and the model's own doubt tells which.
UNSURE = 0.2
# Chosen on packages that are kept apart for it, not on those that figures are of (docs/benchmarks/quality.md). That
# one level serves all kinds of places was found there, too: `sureness.py` weighs their differences.
LEVELS: Mapping[Preset, float] = {"more": 0.5, "balanced": 0.65, "sure": 0.8}
