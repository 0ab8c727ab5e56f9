"""Fits the n-grams to a model on held-out files, and compares model, counts and their mixture."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown, metrics
from efim_lab.gate.evaluation.held_out import LONGEST_COMPLETION
from efim_lab.gate.evaluation.measured_model import LINE
from efim_lab.workshop.training.observation import (
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
from model_runtime.cancel import NEVER
from model_runtime.counts.segment import LEAST
from model_runtime.engine.engine import Engine, GenerateJob
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams

FITTED, JUDGED = 2000, 400  # cursors
SWEEPS = 6  # over all shares; further ones together gain less than a nat
WAYS = ("model", "n-grams", "mixture", "mixture with the package's memory")
GRID = np.linspace(0.0, 0.99, 100)


class MixtureShares(NamedTuple):
    """The shares of counts after matches of 1, 2, ... tokens: in the texts read directly, and in the memory."""

    text: Floats
    repository: Floats


class MixtureRow(NamedTuple):
    """The figures of one way to choose tokens; `exact` is the share of cursors whose line was completed exactly."""

    name: str
    bits_per_character: float
    exact: float


def fit_in_place(folder: Path, documents: Sequence[CodeDocument], fitted: int = FITTED, judged: int = JUDGED) -> str:
    """Fit the n-grams to the model in a folder, write it there, and return a Markdown table."""
    cache, rows = fit(folder, documents, fitted, judged)
    try:
        (folder / NGRAMS_FILE).write_text(cache.to_json(), encoding="utf-8")
    except OSError as error:
        raise WorkError(f"cannot write to {folder} ({error}): make room for it there") from error
    return table(cache, rows)


def fit(folder: Path, documents: Sequence[CodeDocument], fitted: int, judged: int) -> tuple[Ngrams, list[MixtureRow]]:
    """Fit on every other document and judge on the rest (a single one serves both); reproducible.

    The memory of a package holds all of its documents except the cursor's own and open documents.
    """
    rng, observer = random.Random(0), Observer(folder)
    shuffled = sorted(documents, key=lambda d: d.path)
    rng.shuffle(shuffled)
    cache = fit_to(observer.observe(observer.places(shuffled[::2], fitted, rng, shuffled)))
    return cache, judge(observer, cache, list(observer.places(shuffled[1::2] or shuffled, judged, rng, shuffled)))


def fit_to(seen: Observations) -> Ngrams:
    """Return the likeliest half-life and shares; each further match length must be worth a parameter (BIC)."""
    found = [_likeliest_shares(seen, index) for index in range(len(HALF_LIVES))]
    likelihoods = [_log_likelihood(seen, index, shares) for index, shares in enumerate(found)]
    best = int(np.argmax(likelihoods))
    shares, least, price = found[best], likelihoods[best], math.log(len(seen.longest)) / 2
    for source, fewest in (("text", 1), ("repository", 0)):
        while len(row := getattr(shares, source)) > fewest:
            shorter = shares._replace(**{source: row[:-1]})
            if _log_likelihood(seen, best, shorter) <= least - price:
                break
            shares, least = shorter, least - price
    text, repository = (tuple(round(float(share), 2) for share in row) for row in shares)
    return Ngrams(text, HALF_LIVES[best], repository if any(repository) else ())


def judge(observer: Observer, cache: Ngrams, places: Sequence[TargetPlace]) -> list[MixtureRow]:
    """Measure model, counts and mixture separately, then the mixture with the memory of the package.

    To measure bits, the counts are mixed with a uniform distribution: tokens that they do not predict would
    otherwise cost infinitely many. Their completions use the model where there are no counts.
    """
    seen, index, none = observer.observe(places), HALF_LIVES.index(cache.half_life), np.zeros(0)
    shares = MixtureShares(np.array(cache.shares), none)
    token, allowed = (replace(each, model=each.uniform) for each in (seen.token, seen.allowed))
    counts_alone = replace(seen, token=token, allowed=allowed)
    bits = (
        _bits(seen, index, MixtureShares(none, none)),
        _bits(counts_alone, index, shares),
        _bits(seen, index, shares),
        _bits(seen, index, shares._replace(repository=np.array(cache.memory_shares))),
    )
    alone = [replace(place, prompt=replace(place.prompt, counts=None)) for place in places]
    exact = [*_exact(observer, (None, cache.without_model(), cache), alone), *_exact(observer, (cache,), places)]
    return [MixtureRow(*row) for row in zip(WAYS, bits, exact, strict=True)]


def table(cache: Ngrams, rows: Sequence[MixtureRow]) -> str:
    """Format the fitted values and their figures in Markdown."""
    shares, repository = (", ".join(f"{share:.2f}" for share in row) for row in (cache.shares, cache.memory_shares))
    cells = [(row.name, f"{row.bits_per_character:.3f}", f"{row.exact:.1%}") for row in rows]
    body = markdown.table([("next token from", "bits per character", "exact match"), *cells])
    fitted = f"Half-life {cache.half_life:g} tokens; shares of matches of 1, 2, ... tokens: {shares}"
    return f"{body}\n\n{fitted}; in the memory: {repository or 'none'}"


def _likeliest_shares(seen: Observations, half_life: int) -> MixtureShares:
    """Optimize one share after the other; the mixtures are linear in each."""
    shares = MixtureShares(np.full(LONGEST_MATCH, 0.2), np.zeros(LONGEST_MATCH))
    shares.repository[LEAST - 1 :] = 0.2
    for _ in range(SWEEPS):
        for length in range(LONGEST_MATCH):
            _optimize(seen, half_life, shares, shares.text, length, seen.longest > length)
        for length in range(LEAST - 1, LONGEST_MATCH):
            _optimize(seen, half_life, shares, shares.repository, length, seen.counted[:, length])
    return shares


def _optimize(
    seen: Observations,
    half_life: int,
    shares: MixtureShares,
    row: Floats,
    length: int,
    matched: npt.NDArray[np.bool_],
) -> None:
    """Set a length's share in a row of the shares to the likeliest; `matched` [n] are the tokens that it concerns."""
    row[length] = 0.0
    none = _mixtures(seen, half_life, shares)
    row[length] = 1.0
    all_ = _mixtures(seen, half_life, shares)
    token, allowed = (
        np.outer(1 - GRID, n[matched]) + np.outer(GRID, a[matched]) for n, a in zip(none, all_, strict=True)
    )
    row[length] = GRID[_log_ratio(token, allowed).sum(axis=1).argmax()]


def _mixtures(seen: Observations, half_life: int, shares: MixtureShares) -> tuple[Floats, Floats]:
    """Return the probability [n] of each token, and of all tokens that its stub allows."""
    token, allowed = (_mixture(each, seen, half_life, shares) for each in (seen.token, seen.allowed))
    return token, allowed


def _mixture(of: Likelihood, seen: Observations, half_life: int, shares: MixtureShares) -> Floats:
    """Mix as Ngrams.mix does: of each length first the memory's counts, then the texts' counts."""
    mixed = of.model
    for length in range(max(map(len, shares))):
        for row, matched, counts in (
            (shares.repository, seen.counted[:, length], of.repository),
            (shares.text, seen.longest > length, of.counts[half_life]),
        ):
            if length < len(row):
                taken = np.where(matched, row[length], 0.0)
                mixed = (1 - taken) * mixed + taken * counts[:, length]
    return mixed


def _log_likelihood(seen: Observations, half_life: int, shares: MixtureShares) -> float:
    """Return the log likelihood of all tokens in nats, given what their stubs allow; `half_life` is an index."""
    return float(_log_ratio(*_mixtures(seen, half_life, shares)).sum())


def _log_ratio(token: Floats, allowed: Floats) -> Floats:
    return np.log(np.maximum(token, PROBABILITY_FLOOR)) - np.log(np.maximum(allowed, PROBABILITY_FLOOR))


def _bits(seen: Observations, half_life: int, shares: MixtureShares) -> float:
    return -_log_likelihood(seen, half_life, shares) / math.log(2) / seen.characters


def _exact(observer: Observer, caches: Sequence[Ngrams | None], places: Sequence[TargetPlace]) -> list[float]:
    """Return, for each cache, the share of places whose line is completed exactly."""
    engines = [LocalEngine(observer.parts.with_ngrams(cache)) for cache in caches]
    right = [[_finishes(engine, place) for engine in engines] for place in places]
    return [float(share) for share in np.mean(right, axis=0)]


def _finishes(engine: Engine, place: TargetPlace) -> bool:
    answer = engine.generate(GenerateJob(OBSERVER_OWNER, place.prompt, LINE, LONGEST_COMPLETION), NEVER)
    return metrics.is_exact(answer.text, place.rest)
