"""Prompts of other orders through the real engine, as other servers would send them: what the figures compare with.

One arena, exact prefix reuse, nothing computed ahead; no healing, no local cache, single lines. The engine's drafts
stay, as they only change decoding after the first token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from time import perf_counter

import numpy as np

from efim_lab.replay.policies import NONE, POLICIES, Asked, Keystroke
from efim_ls.completion.model_loading import load_model
from efim_ls.request import Costs, Milliseconds
from efim_ls.settings import Settings
from model_runtime.arena.pool import Owner
from model_runtime.engine.engine import Generation
from model_runtime.engine.stops import StopRule
from model_runtime.loading.load import Model
from model_runtime.prompt.prompt import Prompt

OWNER = Owner("baseline")  # of the one arena
ONE_LINE = StopRule(multiline=False, indent=0, max_lines=1)


def costs(keystrokes: Iterable[Keystroke], policy: str, settings: Settings) -> Iterator[Costs]:
    """Answer each keystroke under one of `count.POLICIES`; ModelError says what is wrong with the model."""
    model, budget = load_model(replace(settings, local_cache=False), lambda message, percent: None)
    prompts = POLICIES[policy](model.tokenizer, model.template, budget)
    for key in keystrokes:
        if policy == "none":
            _empty(model)
        started = perf_counter()
        asked = prompts.asked(key.text, key.cursor)
        plan_ms = (perf_counter() - started) * 1e3
        yield _costs(asked, _generated(model, asked, settings), plan_ms)


def _empty(model: Model) -> None:
    """Fill the arena with a token that no prompt begins with."""
    model.engine.prepare(OWNER, np.array(model.template.marker_ids[-1:], dtype=np.int32), lambda: False)


def _generated(model: Model, asked: Asked, settings: Settings) -> Generation:
    # Without a history nothing is known of an earlier answer to a prompt that this one goes on from.
    prompt = Prompt(asked.ids, stub=b"", history=NONE, head=0, tail=0, typed=0)
    return model.engine.generate(OWNER, prompt, ONE_LINE, settings.max_new_tokens, lambda: False)


def _costs(asked: Asked, made: Generation, plan_ms: float) -> Costs:
    ms = Milliseconds(
        plan=plan_ms,
        restore=made.restore_ms,
        prefill=made.prefill_ms,
        decode=made.decode_ms,
        total=plan_ms + made.restore_ms + made.prefill_ms + made.decode_ms,
    )
    return Costs(
        frame="new" if asked.new else "kept",
        reused=made.reused,
        new_tokens=made.new_tokens,
        ms=ms,
        **asdict(made.stats),
    )
