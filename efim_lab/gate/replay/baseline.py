"""Runs other prompt orders through the real engine, as other servers would send them: the baseline of a replay.

One arena, exact prefix reuse, no prefetch, no healing, no n-grams, single lines. The engine's drafts stay on:
they only affect decoding after the first token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from time import perf_counter

import numpy as np

from efim_lab.gate.replay.policies import NO_IDS, POLICIES, PolicyPrompt
from efim_lab.gate.replay.report import KeystrokeRow, row_of
from efim_lab.gate.replay.trace import Keystroke
from efim_ls.completion.models.open import load_model
from efim_ls.request import Costs, Milliseconds
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.engine.engine import Engine, GenerateJob, Generation, PrepareJob
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import Model
from model_runtime.prompt.prompt import Prompt, PromptPart

BASELINE_OWNER = FrameId("baseline")  # of the one arena
ONE_LINE = StopRule(multiline=False, indent=0, max_lines=1)


def baseline_rows(keystrokes: Iterable[Keystroke], policy: str, settings: Settings) -> Iterator[KeystrokeRow]:
    """Answer each keystroke under one of POLICIES; raises ModelError."""
    model, budget = load_model(settings, lambda message, percent: None)
    engine = LocalEngine(model.parts.with_ngrams(None))
    prompts = POLICIES[policy](model.tokenizer, model.template, budget)
    for key in keystrokes:
        if policy == "none":
            _empty(engine, model)
        started = perf_counter()
        prompt = prompts.prompt(key.text, key.cursor)
        plan_ms = (perf_counter() - started) * 1e3
        yield row_of(asdict(_costs(prompt, _generated(engine, prompt, settings), plan_ms)))


def _empty(engine: Engine, model: Model) -> None:
    """Fill the arena with a token that no prompt begins with."""
    engine.prepare(
        PrepareJob(BASELINE_OWNER, _whole(np.array(model.template.marker_ids[-1:], dtype=np.int32))), NEVER
    )


def _generated(engine: Engine, prompt: PolicyPrompt, settings: Settings) -> Generation:
    job = GenerateJob(BASELINE_OWNER, _whole(prompt.ids), ONE_LINE, settings.max_new_tokens)
    return engine.generate(job, NEVER)


def _whole(ids: Ids) -> Prompt:
    # Without a history the engine cannot build on an earlier answer that this prompt continues.
    return Prompt((PromptPart("typed", ids),), stub=b"", history=NO_IDS)


def _costs(prompt: PolicyPrompt, made: Generation, plan_ms: float) -> Costs:
    ms = Milliseconds(
        plan=plan_ms,
        restore=made.restore_ms,
        prefill=made.prefill_ms,
        decode=made.decode_ms,
        total=plan_ms + made.restore_ms + made.prefill_ms + made.decode_ms,
    )
    return Costs(
        frame="new" if prompt.new else "kept",
        reused=made.reused,
        new_tokens=len(made.choices),
        ms=ms,
        **asdict(made.stats),
    )
