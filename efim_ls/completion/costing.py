"""The costs of an answer, put together as its parts become known."""

from __future__ import annotations

from dataclasses import asdict, replace
from time import perf_counter

from efim_ls.completion.planner import Plan
from efim_ls.request import Costs, Milliseconds
from model_runtime.engine.engine import Generation
from model_runtime.prompt.prompt import Prompt


def costs_of(plan: Plan, prompt: Prompt, ms: Milliseconds) -> Costs:
    """What a prompt consists of."""
    return Costs(frame=plan.frame, head=prompt.head, tail=prompt.tail, typed=prompt.typed, ms=ms)


def with_made(costs: Costs, made: Generation) -> Costs:
    """Add what the model did."""
    ms = replace(costs.ms, restore=made.restore_ms, prefill=made.prefill_ms, decode=made.decode_ms)
    counts = {"reused": made.reused, "fetched": made.fetched, "approximate": made.approximate}
    return replace(costs, new_tokens=made.new_tokens, ms=ms, **counts, **asdict(made.stats))


def timed(costs: Costs, started: float) -> Costs:
    """Add what it all took since `started` (perf_counter)."""
    return replace(costs, ms=replace(costs.ms, total=ms_between(started, perf_counter())))


def ms_between(start: float, end: float) -> float:
    """Milliseconds between two times in seconds."""
    return (end - start) * 1e3
