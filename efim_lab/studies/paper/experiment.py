"""Runs the three schemes on the same prompts, in turns pass by pass, so that noise affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from efim_lab.studies.paper.batch_server import Answer, BatchServer
from efim_lab.studies.paper.prompts import EFIM_REUSE, FIM_REUSE, Scheme
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena

REPEATS = 3
WARM_UP = 2  # tokens of an answer generated before measuring

Prompts = Mapping[Scheme, Sequence[Sequence[Ids]]]  # of each user, of each round


class SchemeRun(NamedTuple):
    """All answers of one scheme and the seconds they took together."""

    answers: Sequence[Answer]
    seconds: float


@dataclass(frozen=True)
class SchemeFigures:
    """One scheme's medians over its runs, in seconds and requests per second; `reused` is a share of tokens."""

    latency: float
    latency_p95: float
    throughput: float
    reused: float


@dataclass(frozen=True)
class Published:
    """The paper's figures of a scheme: changes relative to no reuse, and the share reused in its words."""

    latency: float
    throughput: float
    reused: str


PAPER = {FIM_REUSE: Published(-0.21, 0.26, "< 40%"), EFIM_REUSE: Published(-0.52, 0.98, "about 80%")}


def measure(
    decoder: AnyDecoder,
    make_arena: Callable[[], Arena],
    prompts: Prompts,
    tokens: int,
    answered: Callable[[int], object],
) -> dict[Scheme, SchemeFigures]:
    """Serve all users with each scheme; each user of each scheme has its own arena.

    `answered` is called after each pass with the number of new answers.
    """
    arenas = {scheme: [make_arena() for _ in asked] for scheme, asked in prompts.items()}
    _take_turns(
        [BatchServer(decoder, arenas[FIM_REUSE][:1], prompts[FIM_REUSE][:1], WARM_UP, reuses=False)], lambda _: None
    )
    runs: dict[Scheme, list[SchemeRun]] = {scheme: [] for scheme in prompts}
    for _ in range(REPEATS):
        servings = {each: BatchServer(decoder, arenas[each], prompts[each], tokens, each.reuses) for each in prompts}
        _take_turns(list(servings.values()), answered)
        for scheme, serving in servings.items():
            runs[scheme].append(SchemeRun(serving.answers, serving.seconds))
    return {scheme: scheme_figures(each) for scheme, each in runs.items()}


def _take_turns(servings: Sequence[BatchServer], answered: Callable[[int], object]) -> None:
    """Let the server with the fewest new tokens compute the next pass, so that all progress alike."""
    while left := [serving for serving in servings if not serving.done]:
        answered(min(left, key=lambda serving: serving.generated).step())


def scheme_figures(runs: Sequence[SchemeRun]) -> SchemeFigures:
    """Sum up the runs of one scheme."""
    seconds = [[answer.seconds for answer in run.answers] for run in runs]
    answers = [answer for run in runs for answer in run.answers]
    return SchemeFigures(
        latency=median(map(mean, seconds)),
        latency_p95=median(float(np.percentile(each, 95)) for each in seconds),
        throughput=median(len(run.answers) / run.seconds for run in runs),
        reused=sum(answer.reused for answer in answers) / sum(answer.prompt for answer in answers),
    )
