"""Fits the local cache to a model on held-out files, and compares model, counts and their mixture."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from efim_lab.documents import CodeDocument
from efim_lab.errors import WorkError
from efim_lab.evaluation.figures import markdown, metrics
from efim_lab.evaluation.held_out import LONGEST_COMPLETION
from efim_lab.evaluation.measured_model import LINE
from efim_lab.training.observation import (
    HALF_LIVES,
    LONGEST_MATCH,
    OBSERVER_OWNER,
    PROBABILITY_FLOOR,
    Floats,
    Likelihood,
    Observations,
    Observer,
    TargetPlace,
)
from model_runtime.engine.engine import Engine
from model_runtime.engine.ngram_cache import LOCAL_CACHE_FILE, NgramCache

FITTED, JUDGED = 2000, 400  # cursors
SWEEPS = 6  # over all shares; further ones together gain less than a nat
GRID = np.linspace(0.0, 0.99, 100)


class MixtureRow(NamedTuple):
    """The figures of one way to choose tokens; `exact` is the share of cursors whose line was completed exactly."""

    name: str
    bits_per_character: float
    exact: float


def fit_in_place(folder: Path, documents: Sequence[CodeDocument], fitted: int = FITTED, judged: int = JUDGED) -> str:
    """Fit the local cache to the model in a folder, write it there, and return a Markdown table."""
    cache, rows = fit(folder, documents, fitted, judged)
    try:
        (folder / LOCAL_CACHE_FILE).write_text(cache.to_json(), encoding="utf-8")
    except OSError as error:
        raise WorkError(f"cannot write to {folder} ({error}): make room for it there") from error
    return table(cache, rows)


def fit(
    folder: Path, documents: Sequence[CodeDocument], fitted: int, judged: int
) -> tuple[NgramCache, list[MixtureRow]]:
    """Fit on every other document and judge on the rest (a single one serves both); reproducible."""
    rng, observer = random.Random(0), Observer(folder)
    shuffled = sorted(documents, key=lambda d: d.path)
    rng.shuffle(shuffled)
    cache = fit_to(observer.observe(observer.places(shuffled[::2], fitted, rng)))
    return cache, judge(observer, cache, list(observer.places(shuffled[1::2] or shuffled, judged, rng)))


def fit_to(seen: Observations) -> NgramCache:
    """Return the likeliest half-life and shares; each further match length must be worth a parameter (BIC)."""
    found = [_likeliest_shares(seen, index) for index in range(len(HALF_LIVES))]
    likelihoods = [_log_likelihood(seen, index, shares) for index, shares in enumerate(found)]
    best = int(np.argmax(likelihoods))
    shares, price = found[best], math.log(len(seen.longest)) / 2
    while len(shares) > 1 and _log_likelihood(seen, best, shares[:-1]) > likelihoods[best] - price:
        shares, price = shares[:-1], price + math.log(len(seen.longest)) / 2
    return NgramCache(tuple(round(float(share), 2) for share in shares), HALF_LIVES[best])


def judge(observer: Observer, cache: NgramCache, places: Sequence[TargetPlace]) -> list[MixtureRow]:
    """Measure model, counts and mixture separately.

    To measure bits, the counts are mixed with a uniform distribution: tokens that they do not predict would
    otherwise cost infinitely many. Their completions use the model where there are no counts.
    """
    seen, index, shares = observer.observe(places), HALF_LIVES.index(cache.half_life), np.array(cache.shares)
    token, allowed = (replace(each, model=each.uniform) for each in (seen.token, seen.allowed))
    counts_alone = replace(seen, token=token, allowed=allowed)
    bits = _bits(seen, index, shares[:0]), _bits(counts_alone, index, shares), _bits(seen, index, shares)
    exact = _exact(observer, (None, cache.without_model(), cache), places)
    return [MixtureRow(*row) for row in zip(("model", "local cache", "mixture"), bits, exact, strict=True)]


def table(cache: NgramCache, rows: Sequence[MixtureRow]) -> str:
    """Format the fitted values and their figures in Markdown."""
    shares = ", ".join(f"{share:.2f}" for share in cache.shares)
    cells = [(row.name, f"{row.bits_per_character:.3f}", f"{row.exact:.1%}") for row in rows]
    body = markdown.table([("next token from", "bits per character", "exact match"), *cells])
    return f"{body}\n\nHalf-life {cache.half_life:g} tokens; shares of matches of 1, 2, ... tokens: {shares}"


def _likeliest_shares(seen: Observations, half_life: int) -> Floats:
    """Optimize one share after the other; the mixtures are linear in each."""
    shares = np.full(LONGEST_MATCH, 0.2)
    for _ in range(SWEEPS):
        for length in range(LONGEST_MATCH):
            shares[length] = _likeliest_share(seen, half_life, shares, length)
    return shares


def _likeliest_share(seen: Observations, half_life: int, shares: Floats, length: int) -> float:
    matched = seen.longest > length
    where = np.arange(LONGEST_MATCH) == length
    none, all_ = (_mixtures(seen, half_life, np.where(where, share, shares)) for share in (0.0, 1.0))
    token, allowed = (
        np.outer(1 - GRID, n[matched]) + np.outer(GRID, a[matched]) for n, a in zip(none, all_, strict=True)
    )
    return float(GRID[_log_ratio(token, allowed).sum(axis=1).argmax()])


def _mixtures(seen: Observations, half_life: int, shares: Floats) -> tuple[Floats, Floats]:
    """Return the probability [n] of each token, and of all tokens that its stub allows."""
    token, allowed = (_mixture(each, seen.longest, half_life, shares) for each in (seen.token, seen.allowed))
    return token, allowed


def _mixture(of: Likelihood, longest: npt.NDArray[np.int64], half_life: int, shares: Floats) -> Floats:
    """Mix as NgramCache.mix does."""
    mixed = of.model
    for length, share in enumerate(shares):
        taken = np.where(longest > length, share, 0.0)
        mixed = (1 - taken) * mixed + taken * of.counts[half_life, :, length]
    return mixed


def _log_likelihood(seen: Observations, half_life: int, shares: Floats) -> float:
    """Return the log likelihood of all tokens in nats, given what their stubs allow; `half_life` is an index."""
    return float(_log_ratio(*_mixtures(seen, half_life, shares)).sum())


def _log_ratio(token: Floats, allowed: Floats) -> Floats:
    return np.log(np.maximum(token, PROBABILITY_FLOOR)) - np.log(np.maximum(allowed, PROBABILITY_FLOOR))


def _bits(seen: Observations, half_life: int, shares: Floats) -> float:
    return -_log_likelihood(seen, half_life, shares) / math.log(2) / seen.characters


def _exact(observer: Observer, caches: Sequence[NgramCache | None], places: Sequence[TargetPlace]) -> list[float]:
    """Return, for each cache, the share of places whose line is completed exactly."""
    engines = [observer.engine.with_ngram_cache(cache) for cache in caches]
    right = [[_finishes(engine, place) for engine in engines] for place in places]
    return [float(share) for share in np.mean(right, axis=0)]


def _finishes(engine: Engine, place: TargetPlace) -> bool:
    answer = engine.generate(OBSERVER_OWNER, place.prompt, LINE, LONGEST_COMPLETION, lambda: False)
    return metrics.is_exact(answer.text, place.rest)
