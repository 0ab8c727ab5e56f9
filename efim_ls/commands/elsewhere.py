"""What `efim-ls doctor --engine` finds out about a server with a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from efim_ls.commands.arguments import object_setting
from efim_ls.failures import Failure
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.errors import EngineError, ModelError

if TYPE_CHECKING:
    from model_runtime.remote.engine import RemoteFacts

LIMIT = 8  # tokens of the answer that is timed


def engine_settings(engine: str, model: str) -> Settings:
    """Return settings with an engine, given by its address or as a JSON object; raises Mistake."""
    text = engine if engine.lstrip().startswith("{") else json.dumps({"url": engine})
    return object_setting("--engine", "engine", text, {"model": model, "persist": False})


def examine_engine(settings: Settings, text: str) -> Mapping[str, str]:
    """Send a text to the engine that the settings name and return the findings; raises Failure if that fails."""
    from efim_ls.completion.models.elsewhere import fetch_elsewhere, open_elsewhere
    from model_runtime.engine.engine import GenerateJob
    from model_runtime.engine.stops import stop_rule
    from model_runtime.kv.pool import FrameId
    from model_runtime.prompt.prompt import build

    try:
        fetch_elsewhere(settings, lambda message, percent: None)
        opened = open_elsewhere(settings)
        model, engine = opened.model, opened.engine
        prompt = build(model.tokenizer, model.template, "", "", text)
        rule = stop_rule(text.rpartition("\n")[2], "", False, 1)
        found = engine.probe(GenerateJob(FrameId("doctor"), prompt, rule, LIMIT, private=False), NEVER)
        engine.close(0)
    except (EngineError, ModelError) as error:
        raise Failure(f"the engine on {settings.engine.host} cannot be used, since {error}") from error
    return _facts(settings.engine.host, found)


def _facts(host: str, found: RemoteFacts) -> Mapping[str, str]:
    share = found.cached / found.tokens
    return {
        "host": host,
        "kind": found.kind,
        "model": found.model,
        "context": f"{found.context:,} tokens" if found.context else "not said",
        "block": f"{found.block} tokens: what a key computes again begins at one" if found.block else "not said",
        "cached": f"{found.cached:,} of {found.tokens:,} tokens of a prompt that came again ({share:.0%})",
        "round trip": f"{found.round_trip:.0f} ms, with at most {LIMIT} new tokens",
    }
