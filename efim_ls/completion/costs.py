"""Collects the costs of an answer while it is computed."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Literal

from efim_ls.completion.planner import Plan
from efim_ls.request import Costs, Milliseconds
from model_runtime.engine.engine import Generation
from model_runtime.prompt.prompt import Prompt

Stage = Literal["plan", "tokenize", "alternatives", "postprocess"]


class CostMeter:
    """Collects costs; times are milliseconds of wall time since its creation."""

    def __init__(self) -> None:
        self._started = self._last = perf_counter()
        self._ms: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._plan: Plan | None = None

    def lap(self, stage: Stage | None = None) -> None:
        """End a stage, which began when the previous one ended; without a name, its time is not counted here."""
        now = perf_counter()
        if stage is not None:
            self._ms[stage] = (now - self._last) * 1e3
        self._last = now

    def plan(self, plan: Plan, prompt: Prompt) -> None:
        """Note the plan and the sizes of the prompt's parts."""
        self._plan = plan
        self._counts |= {"head": prompt.head, "tail": prompt.tail, "typed": prompt.typed}

    def generation(self, made: Generation) -> None:
        """Add the model's counts and times, which the engine measured."""
        self._ms |= {"restore": made.restore_ms, "prefill": made.prefill_ms, "decode": made.decode_ms}
        self.add(reused=made.reused, fetched=made.fetched, approximate=made.approximate, new_tokens=made.new_tokens)
        self.add(**asdict(made.stats))

    def add(self, **counts: int) -> None:
        """Set counts by their names in `Costs`."""
        self._counts |= counts

    def total(self) -> Costs:
        """Return the costs up to now."""
        return self._frozen(Milliseconds(**self._ms, total=(perf_counter() - self._started) * 1e3))

    def counted(self) -> Costs:
        """Return the counts alone, without times."""
        return self._frozen(Milliseconds())

    def _frozen(self, ms: Milliseconds) -> Costs:
        return Costs(frame=self._plan.frame if self._plan else "new", **self._counts, ms=ms)
