"""Collects the costs of an answer while it is computed."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Literal

from efim_ls.completion.planning.planner import Frame
from efim_ls.request import Costs, FrameKind, Milliseconds
from model_runtime.engine.engine import Generation
from model_runtime.prompt.prompt import WINDOW_PARTS

Stage = Literal["plan", "tokenize", "postprocess"]


class CostMeter:
    """Collects costs; times are milliseconds of wall time since its creation."""

    def __init__(self) -> None:
        self._started = self._last = perf_counter()
        self._ms: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._frame: FrameKind = "new"

    def lap(self, stage: Stage | None = None) -> None:
        """End a stage, which began when the previous one ended; without a name, its time is not counted here."""
        now = perf_counter()
        if stage is not None:
            self._ms[stage] = (now - self._last) * 1e3
        self._last = now

    def frame(self, frame: Frame) -> None:
        """Note which frame is used, and the sizes of its prompt's parts."""
        self._frame = frame.plan.frame
        sizes = frame.prompt.sizes
        window = {name: sizes[name] for name in WINDOW_PARTS}
        self.add(**window, others=sum(sizes.values()) - sum(window.values()) - sizes["marker"])

    def generation(self, made: Generation) -> None:
        """Add the model's counts and times, which the engine measured."""
        self._ms |= {"restore": made.restore_ms, "prefill": made.prefill_ms, "decode": made.decode_ms}
        self._ms |= {"alternatives": made.alternatives_ms}
        self.add(reused=made.reused, fetched=made.fetched, approximate=made.approximate)
        self.add(new_tokens=len(made.choices), **asdict(made.stats))

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
        return Costs(frame=self._frame, **self._counts, ms=ms)
