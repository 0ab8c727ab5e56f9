"""Finds out what a server is, which model it has, and whether that has the vocabulary of ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from model_runtime.cancel import Cancel
from model_runtime.errors import EngineError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.connection import Connection, Json, nonsense
from model_runtime.remote.dialects import Dialect, LlamaCpp, OpenAi, Served, Vllm
from model_runtime.remote.setting import Kind, RemoteOptions

OWNERS: dict[str, Kind] = {"vllm": "vllm", "llamacpp": "llama.cpp"}  # whom servers name as owner of their models
# In one line each: vocabularies that agree on these differ nowhere that matters.
SAMPLES = (
    "def total(values, start=0):",
    "    return [each for each in values if each is not None]",
    "größe = 日本(😀)",
)
LONGEST_NAME, MOST_NAMED = 256, 16  # characters of a model's name, and models that a message names
BLOCK_SIZE = re.compile(r'block_size="(\d{1,9})"')


def identify(
    connection: Connection, options: RemoteOptions, tokenizer: Tokenizer, ends: Collection[int], cancel: Cancel
) -> Dialect:
    """Return how to speak to a server; EngineError if it has no model, several, or one of another vocabulary."""
    connection.use_key(options.key())
    models = connection.ask("GET", "/v1/models", None, cancel)
    try:
        dialect = _dialect(connection, options, tokenizer, ends, models["data"], cancel)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        raise nonsense(options.host) from None
    check_vocabulary(connection, dialect, tokenizer, options.host, cancel)
    return dialect


def _dialect(
    connection: Connection,
    options: RemoteOptions,
    tokenizer: Tokenizer,
    ends: Collection[int],
    models: Sequence[Json],
    cancel: Cancel,
) -> Dialect:
    found = _model(models, options)
    kind = options.kind or OWNERS.get(str(found.get("owned_by")), "openai")
    if len(name := str(found["id"])) > LONGEST_NAME:
        raise ValueError
    if kind == "vllm":
        return Vllm(Served(kind, name, int(found.get("max_model_len") or 0)), options, ends)
    if kind == "llama.cpp":
        about: Any = connection.ask("GET", "/props", None, cancel)
        context = int(about["default_generation_settings"]["n_ctx"])
        return LlamaCpp(Served(kind, name, context, int(about["total_slots"])))
    return OpenAi(Served(kind, name), tokenizer)


def _model(models: Sequence[Json], options: RemoteOptions) -> Json:
    """Return the model that the options name, or the only one."""
    named = [each for each in models if each["id"] == options.model] if options.model else models
    if len(named) == 1:
        return named[0]
    names = ", ".join(str(each["id"])[:LONGEST_NAME] for each in models[:MOST_NAMED]) or "none"
    cause = f"has no model {options.model!r}" if options.model else "does not have one model alone"
    raise EngineError(f"{options.host} {cause}, but {names}: name one as 'model' in the setting 'engine'")


def check_vocabulary(
    connection: Connection, dialect: Dialect, tokenizer: Tokenizer, host: str, cancel: Cancel
) -> None:
    """Raise EngineError unless the server cuts some texts into the same tokens, if it can be asked."""
    for text in SAMPLES:
        if (asked := dialect.tokenize(text)) is None:
            return
        if connection.ask("POST", *asked, cancel).get("tokens") != tokenizer.encode(text).tolist():
            raise another_vocabulary(host, dialect)


def another_vocabulary(host: str, dialect: Dialect) -> EngineError:
    """Return the error for a server whose model has another vocabulary."""
    return EngineError(
        f"the model {dialect.served.model} on {host} has another vocabulary than the one in the setting 'model': "
        "name there the model that the server has"
    )


def block_size(connection: Connection, cancel: Cancel) -> int:
    """Return how many tokens vLLM's blocks have, 0 if it does not say."""
    try:
        found = BLOCK_SIZE.search(connection.text("/metrics", cancel))
    except EngineError:  # a server need not have this page
        return 0
    return int(found[1]) if found else 0
