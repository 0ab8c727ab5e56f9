"""The figures of each method at each place, and their summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from efim_lab.gate.evaluation.figures.intervals import Estimate, ratio
from efim_lab.studies.reuse.subject import Rows


@dataclass(frozen=True)
class Measured:
    """One method at one place.

    `recomputed` of the prompt's `tokens` went through the model, `ms` of processor time passed to the first token.
    `bytes` counts the keys and values that are kept. `kl` holds, for the next token and those after it, the
    divergence from full attention in nats; `same` says whether the greedy completion is the same, `exact` whether it
    is the file's text.
    """

    file: str
    recomputed: float
    tokens: int
    ms: float
    bytes: float
    kl: tuple[float, ...]
    same: bool
    exact: bool


@dataclass(frozen=True)
class Summary:
    """The figures of a method over all places; `exact` with its interval over files."""

    recomputed: float
    tokens: float
    ms: float
    bytes: float
    kl: float
    kl_p95: float
    same: float
    exact: Estimate
    places: int


def summary(found: Sequence[Measured]) -> Summary:
    """Sum up the places of one method."""
    divergences = np.array([value for each in found for value in each.kl])
    files: Mapping[str, list[bool]] = {}
    for each in found:
        files.setdefault(each.file, []).append(each.exact)
    return Summary(
        recomputed=float(np.mean([each.recomputed for each in found])),
        tokens=float(np.mean([each.tokens for each in found])),
        ms=float(np.median([each.ms for each in found])),
        bytes=float(np.mean([each.bytes for each in found])),
        kl=float(divergences.mean()),
        kl_p95=float(np.quantile(divergences, 0.95)),
        same=float(np.mean([each.same for each in found])),
        exact=ratio([sum(hits) for hits in files.values()], [len(hits) for hits in files.values()]),
        places=len(found),
    )


def divergences(exact: Rows, other: Rows) -> tuple[float, ...]:
    """Return the Kullback-Leibler divergence, in nats, of each row of `other` from the row of `exact`."""
    p, q = (_log_probabilities(each) for each in (exact, other))
    return tuple((np.exp(p) * (p - q)).sum(1).clip(0).tolist())


def _log_probabilities(logits: Rows) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
