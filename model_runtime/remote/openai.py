"""OpenAI's completions: of vLLM by token ids, of others by text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import exp
from typing import Any

from model_runtime.errors import EngineError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.connection import Json
from model_runtime.remote.dialect import Ask, NextToken, Served, StreamPiece
from model_runtime.remote.setting import RemoteOptions

TOP, TOP_OF_VLLM = 5, 20  # likeliest tokens that are asked for: the most that servers give by default
MOST_BIASES = 300  # that OpenAI's API takes
BIAS = 100  # the highest
ID = "token_id:"  # what vLLM writes before a token's id


class OpenAi:
    """Completions by text: tokens come as text, and are looked up in the vocabulary."""

    path = "/v1/completions"

    def __init__(self, served: Served, tokenizer: Tokenizer) -> None:
        """Read the tokens of a tokenizer, which is the server's."""
        self.served, self._tokenizer = served, tokenizer
        self._by_text = {spelled: token for token, spelled in enumerate(tokenizer.token_bytes) if spelled}

    def body(self, ask: Ask) -> Json:
        """Return a request by text, without what the server puts before every text itself; of one token at least."""
        ids, bos = ask.ids, self._tokenizer.bos
        text = self._tokenizer.decode(ids[len(bos) :] if tuple(ids[: len(bos)].tolist()) == bos else ids)
        body = _body(self.served.model, text, max(1, ask.limit), TOP)
        if ask.allowed is not None and len(ask.allowed) <= MOST_BIASES:
            body["logit_bias"] = {str(token): BIAS for token in ask.allowed.tolist()}
        return body

    def read(self, event: Json) -> StreamPiece:
        """Return what an event says; a token that is not in the vocabulary ends the answer."""
        if not (choice := _choice(event)):
            return StreamPiece(reused=_cached(event))
        tokens = list[NextToken]()
        for text, chance, likely in _log_probabilities(choice):
            if (token := self._by_text.get(text.encode())) is None:
                return StreamPiece(tuple(tokens), "", bool(text), _cached(event))
            known = {self._by_text.get(other.encode()): each for other, each in likely.items()}
            tokens.append(NextToken(token, chance, {i: each for i, each in known.items() if i is not None}))
        return StreamPiece(tuple(tokens), str(choice["text"]), choice.get("finish_reason") == "stop", _cached(event))

    def tokenize(self, text: str) -> None:
        """Return None: there is no such path."""


class Vllm:
    """vLLM's completions by token ids, in both directions."""

    path = "/v1/completions"

    def __init__(self, served: Served, options: RemoteOptions, ends: Collection[int]) -> None:
        """Ask as the options say; `ends` end a text."""
        self.served, self._ends = served, sorted(ends)
        extra = {"cache_salt": options.cache_salt, "priority": options.priority}
        self._extra = {name: value for name, value in extra.items() if value}

    def body(self, ask: Ask) -> Json:
        """Return a request by ids; one of no token asks for one, the least that vLLM computes."""
        body = _body(self.served.model, ask.ids.tolist(), max(1, ask.limit), TOP_OF_VLLM) | self._extra
        body |= {"return_token_ids": True, "return_tokens_as_token_ids": True, "stop_token_ids": self._ends}
        if ask.allowed is not None:
            body["allowed_token_ids"] = ask.allowed.tolist()
        elif ask.one_line:  # ended by the server, an answer tells its costs
            body |= {"stop": ["\n"], "include_stop_str_in_output": True}
        return body

    def read(self, event: Json) -> StreamPiece:
        """Return what an event says."""
        if not (choice := _choice(event)):
            return StreamPiece(reused=_cached(event))
        found = [
            NextToken(token, chance, {int(other.removeprefix(ID)): each for other, each in likely.items()})
            for token, (_, chance, likely) in zip(choice["token_ids"], _log_probabilities(choice), strict=True)
        ]
        return StreamPiece(tuple(found), str(choice["text"]), choice.get("finish_reason") == "stop", _cached(event))

    def tokenize(self, text: str) -> tuple[str, Json]:
        """Return the path and the body that ask for a text's ids."""
        return "/tokenize", {"model": self.served.model, "prompt": text, "add_special_tokens": False}


def _body(model: str, prompt: object, limit: int, top: int) -> dict[str, object]:
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": limit,
        "temperature": 0,
        "logprobs": top,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _choice(event: Json) -> Any:
    return event["choices"][0] if event["choices"] else None


def _log_probabilities(choice: Any) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield each token's text, its chance and the chances of the likeliest tokens."""
    given: Any = choice.get("logprobs")
    if given is None:
        if choice["text"]:
            raise EngineError("the server sends no token probabilities (logprobs): choose a server that does")
        return
    likeliest: Any = given["top_logprobs"] or [None] * len(given["tokens"])
    for text, logprob, likely in zip(given["tokens"], given["token_logprobs"], likeliest, strict=True):
        top: dict[str, float] = likely or {}
        yield text, exp(logprob), {other: exp(each) for other, each in top.items()}


def _cached(event: Json) -> int | None:
    """Return the prompt's tokens that the server says it had, None while it says nothing of them."""
    usage: Any = event.get("usage") or {}
    details: Any = usage.get("prompt_tokens_details") or {}
    return details.get("cached_tokens")
