"""How sure a rule is that a place will be changed as it proposes.

Logistic regressions of what a candidate's surroundings tell, fitted to histories of repositories by
`python -m efim_lab next-edit --fit`; docs/next-edit.md names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

LEVELS = {"repeat": 0.55, "rename": 0.45}  # below which a rule's candidates are not offered
# By rule: what each feature of a candidate adds to the logarithm of its odds.
WEIGHTS = {
    "repeat": {
        "bias": -3.88, "name for name": 0.70, "insertion": 0.57, "deletion": 0.53, "length": 0.47, "ahead": 1.98,
        "within": -4.07, "skipped": -1.07, "behind": -0.93, "near": 1.26, "left fits": 0.89, "right fits": 0.71,
        "little fits": -0.58, "like left": 0.16, "like right": 0.18, "in string": -0.99, "in comment": -0.35,
    },
    "rename": {
        "bias": -3.35, "keyword": -0.66, "to keyword": -0.44, "length": 0.21, "similar": 1.13, "case": 0.24,
        "member": -0.70, "called": -0.16, "defined": -0.22, "imported": -1.26, "was in string": -0.32,
        "was in comment": -0.86, "local": 0.38, "elsewhere": -2.21, "places": 0.58, "above": -1.13, "below": 2.02,
        "distance": -0.20, "left": 0.37, "right": 0.34, "defines": -0.91, "in string": -1.25, "in comment": -1.12,
    },
}  # fmt: skip


def confidence(rule: str, features: Mapping[str, float]) -> float:
    """Return how often candidates with such features are right, from 0 to 1."""
    weights = WEIGHTS[rule]
    odds = weights["bias"] + sum(weights[name] * value for name, value in features.items())
    return 1 / (1 + exp(-odds))
