"""How sure a rule is that a place will be changed as it proposes.

Logistic regressions of what a candidate's surroundings tell, fitted to histories of repositories by
`python -m efim_lab next-edit --fit`; docs/next-edit.md names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

LEVELS = {"repeat": 0.5, "rename": 0.5}  # below which a rule's candidates are not offered
# By rule: what each feature of a candidate adds to the logarithm of its odds.
WEIGHTS = {
    "repeat": {
        "bias": -3.93, "ahead": 1.96, "within": -4.17, "skipped": -0.84, "behind": -0.86, "near": 1.16,
        "more examples": 0.04, "name for name": 0.69, "insertion": -0.39, "deletion": 0.61, "length": 0.51,
        "left fits": 0.76, "right fits": 0.71, "little fits": -0.50, "like left": 0.15, "like right": 0.17,
        "in string": -0.85, "in comment": -0.66,
    },
    "rename": {
        "bias": -3.29, "keyword": -0.71, "to keyword": -0.49, "length": 0.20, "similar": 1.13, "part": 0.02,
        "case": 0.23, "member": -0.66, "called": -0.18, "defined": -0.17, "imported": -1.25, "was in string": -0.36,
        "was in comment": -0.85, "local": 0.37, "elsewhere": -2.08, "places": 0.51, "known": 0.01, "above": -1.05,
        "below": 2.10, "distance": -0.19, "left": 0.39, "right": 0.34, "also member": -0.07, "defines": -0.91,
        "in string": -1.19, "in comment": -1.15,
    },
}  # fmt: skip


def confidence(rule: str, features: Mapping[str, float]) -> float:
    """Return how often candidates with such features are right, from 0 to 1."""
    weights = WEIGHTS[rule]
    odds = weights["bias"] + sum(weights[name] * value for name, value in features.items())
    return 1 / (1 + exp(-odds))
