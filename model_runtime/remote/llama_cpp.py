"""llama.cpp's server: its own completions, by token ids."""

from __future__ import annotations

from math import exp
from typing import Any, cast

from model_runtime.remote.connection import Json
from model_runtime.remote.dialect import Ask, NextToken, Served, StreamPiece

TOP = 20  # likeliest tokens that are asked for
BIAS = 1000.0  # more than any two logits differ


class LlamaCpp:
    """llama.cpp's completions by token ids, each frame in its own slot while there are free slots."""

    path = "/completion"

    def __init__(self, served: Served) -> None:
        """Ask the served model."""
        self.served = served

    def body(self, ask: Ask) -> Json:
        """Return a request by ids; one of no token has its prompt computed."""
        body: dict[str, object] = {
            "prompt": ask.ids.tolist(),
            "n_predict": ask.limit,
            "temperature": 0,
            "n_probs": TOP,
            "return_tokens": True,
            "cache_prompt": True,
            "id_slot": ask.slot,
            "timings_per_token": True,
            "stream": True,
        }
        if ask.allowed is not None:
            body["logit_bias"] = [[token, BIAS] for token in ask.allowed.tolist()]
        return body

    def read(self, event: Json) -> StreamPiece:
        """Return what an event says; a character of several tokens, of which only the last comes, ends the answer."""
        text, timings = str(event["content"]), cast(Json, event.get("timings") or {})
        ended = bool(event["stop"]) and event.get("stop_type") == "eos"
        chosen: list[Any] = event.get("completion_probabilities") or []
        tokens = tuple(
            NextToken(each["id"], exp(each["logprob"]), {i["id"]: exp(i["logprob"]) for i in each["top_logprobs"]})
            for each in chosen
        )
        reused = timings.get("cache_n")
        if reused is None and "prompt_n" in timings and "tokens_evaluated" in event:
            reused = event["tokens_evaluated"] - timings["prompt_n"]
        return StreamPiece(() if event["stop"] else tokens, text, ended, reused)

    def tokenize(self, text: str) -> tuple[str, Json]:
        """Return the path and the body that ask for a text's ids."""
        return "/tokenize", {"content": text, "add_special": False}
