"""Simulates a mixture some of whose experts a GPU holds, at given costs: it takes no GPU.

The schedule is the server's own, with the GPU's memory in place of memory, and memory in place of the disk. An expert
that a token chooses and that the GPU does not hold goes where it is done sooner: to the CPU, or over the link to the
GPU. While the link is idle, it brings what the next layer will likely choose (HybriMoE, arXiv 2504.05897).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.shelves.experts_on_disk.experts import NOWHERE, Schedule

Way = Literal["bring", "stay", "sooner"]
Scores = npt.NDArray[np.float32]  # [tokens, layers, count]


class ExpertCosts(NamedTuple):
    """Milliseconds that one expert takes: computed by a GPU, computed by a CPU, brought from memory to the GPU."""

    gpu: float
    cpu: float
    link: float


class SimulatedTokens(NamedTuple):
    """What experts cost a token: milliseconds in all layers, and the shares of those chosen by where they were.

    The GPU `held` some, others were `brought` to it or `stayed` with the CPU.
    """

    ms: float
    held: float
    brought: float
    stayed: float


class ExpertSimulation:
    """A GPU with room for `slots` experts, a CPU and a link, which all work at once."""

    def __init__(self, layers: int, count: int, chosen: int, slots: int, costs: ExpertCosts, way: Way) -> None:
        """Start with an empty GPU; experts that it lacks are brought, stay, or are computed where that is sooner."""
        self._schedule, self._chosen = Schedule(layers, count, chosen, slots), chosen
        self._costs, self._way = costs, way

    def run(self, scores: Scores, guesses: Scores) -> SimulatedTokens:
        """Return the mean of tokens; guesses are scores by what the layer before reads."""
        tokens, layers, _ = scores.shape
        ms, places = 0.0, np.zeros(3)
        for token in range(tokens):
            for layer in range(layers):
                row = scores[token, layer]
                wanted = np.argsort(-row, kind="stable")[: self._chosen]
                self._schedule.count_tokens(layer, row[None], wanted)
                took, link, found = self._layer(layer, wanted)
                ms += took
                places += found
                if layer + 1 < layers and self._way != "stay":
                    self._bring_ahead(
                        layer + 1, self._schedule.guess(layer + 1, guesses[token, layer + 1][None]), took - link
                    )
        return SimulatedTokens(ms / tokens, *(places / places.sum()).tolist())

    def _layer(self, layer: int, wanted: Iterable[np.intp]) -> tuple[float, float, tuple[int, int, int]]:
        """Return when a layer's experts are done, when the link is, and how many were held, brought and stayed."""
        experts = [int(expert) for expert in wanted]
        absent = self._schedule.absent(layer, experts)
        held = {self._schedule.slot(layer, expert) for expert in experts} - {NOWHERE}
        gpu, cpu, link, brought = len(held) * self._costs.gpu, 0.0, 0.0, 0
        for expert in absent:
            by_gpu = max(link + self._costs.link, gpu) + self._costs.gpu
            by_cpu = cpu + self._costs.cpu
            if self._way == "stay" or (self._way == "sooner" and by_cpu < by_gpu):
                cpu = by_cpu
                continue
            gpu, link, brought = by_gpu, link + self._costs.link, brought + 1
            held.add(self._schedule.assign(layer, expert, held))
        return max(gpu, cpu), link, (len(experts) - len(absent), brought, len(absent) - brought)

    def _bring_ahead(self, layer: int, likely: Sequence[int], idle: float) -> None:
        """Bring what a layer will likely choose, the likeliest first, in the milliseconds that the link is idle."""
        held = set[int]()
        for expert in likely[: int(idle / self._costs.link)]:
            held.add(self._schedule.assign(layer, expert, held))
