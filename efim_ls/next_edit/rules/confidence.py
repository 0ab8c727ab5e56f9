"""How sure a rule is that a place will be changed as it proposes.

Logistic regressions of what a candidate's surroundings tell, fitted to histories of repositories by
`python -m efim_lab next-edit --fit`; docs/next-edit-rules.md names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

LEVELS = {  # below which nothing is offered
    "repeat": 0.55, "rename": 0.6, "doubtful rename": 0.9, "transform": 0.65, "signature": 0.5, "import": 0.6,
}  # fmt: skip
# By rule: what each feature of a candidate adds to the logarithm of its odds.
WEIGHTS = {
    "repeat": {
        "bias": -3.53, "name for name": 0.73, "insertion": 0.61, "deletion": 0.52, "length": 0.45, "ahead": 1.89,
        "within": -4.24, "skipped": -1.13, "behind": -1.04, "near": 1.27, "left fits": 0.72, "right fits": 0.77,
        "little fits": -0.62, "like left": 0.14, "like right": 0.18, "in string": -1.02, "in comment": -0.50,
    },
    "rename": {
        "bias": -3.32, "keyword": -0.51, "to keyword": -0.50, "length": 0.47, "similar": 1.15, "case": 0.43,
        "member": -0.73, "called": -0.25, "defined": -0.17, "imported": -0.69, "was in string": -0.17,
        "was in comment": -1.10, "local": 0.43, "elsewhere": -1.62, "places": 0.32, "above": -1.10, "below": 2.21,
        "distance": -0.22, "left": 0.37, "right": 0.32, "defines": -0.67, "in string": -1.10, "in comment": -1.16,
    },
    "import": {
        "bias": 1.31, "importers": -0.01, "by place": 1.47, "length": -0.59, "capital": 0.67, "called": 0.21,
        "member": 4.06, "known module": 3.13,
    },
    "transform": {
        "bias": -3.73, "words": 0.31, "dropped": -0.74, "ahead": 2.16, "within": 1.41, "skipped": -0.50,
        "behind": -0.35, "near": 0.71, "left fits": 0.65, "right fits": 1.07, "like left": 0.31, "as long": 0.55,
        "in string": -0.73, "in comment": -0.73,
    },
    "signature": {
        "bias": 2.93, "removed": -0.67, "replaced": 0.19, "member": -0.44, "calls": -1.45, "followed": -0.23,
        "example": -0.78, "below": 0.24, "distance": 0.29, "own": 0.43, "chained": -0.89,
    },
}  # fmt: skip


def confidence(rule: str, features: Mapping[str, float]) -> float:
    """Return how often candidates with such features are right, from 0 to 1."""
    weights = WEIGHTS[rule]
    odds = weights["bias"] + sum(weights[name] * value for name, value in features.items())
    return 1 / (1 + exp(-odds))
