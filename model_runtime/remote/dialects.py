"""How each kind of server is asked, and how its answers are read.

Servers with OpenAI's completions are asked by text, vLLM and llama.cpp's own server by token ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any, NamedTuple, Protocol, cast

from model_runtime.errors import EngineError
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.connection import Json
from model_runtime.remote.setting import RemoteOptions

# Likeliest tokens that are asked for: the most that servers give by default.
TOP, TOP_OF_VLLM, TOP_OF_LLAMA_CPP = 5, 20, 20
MOST_BIASES = 300  # that OpenAI's API takes
BIAS = 100  # the highest
ID = "token_id:"  # what vLLM writes before a token's id
BIAS_OF_LLAMA_CPP = 1000.0  # more than any two logits differ


class Ask(NamedTuple):
    """A prompt to go on with for at most `limit` tokens; of one token, only those `allowed`, if there are any.

    `slot` is the place on the server that holds the frame's cached rows, where a server has places. Of
    `one_line` no more than that is wanted.
    """

    ids: Ids
    limit: int
    slot: int = 0
    allowed: Ids | None = None
    one_line: bool = False


class NextToken(NamedTuple):
    """A token that a server chose, its chance, and the chances of the likeliest tokens there."""

    token: int
    chance: float
    likely: Mapping[int, float]


class StreamPiece(NamedTuple):
    """What came at once: tokens and the text that they are on the server, whether it is all, and its costs.

    `reused` are the prompt's tokens that the server did not compute, None while it has not said.
    """

    tokens: tuple[NextToken, ...] = ()
    text: str = ""
    ended: bool = False
    reused: int | None = None

    def checked(self) -> StreamPiece:
        """Return it; raises ValueError if it is of other types than these, or has numbers that cannot be."""
        numbers = [number for each in self.tokens for number in (each.token, *each.likely)]
        chances = [chance for each in self.tokens for chance in (each.chance, *each.likely.values())]
        if self.reused is not None and not (_is_whole(self.reused) and self.reused >= 0):
            raise ValueError
        if not all(map(_is_whole, numbers)) or not all(isfinite(chance) for chance in chances):
            raise ValueError
        return self


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Served:
    """What a server says of itself: its model, its most tokens and its places for frames; 0 where it says nothing."""

    kind: str
    model: str
    context: int = 0
    slots: int = 0


class Dialect(Protocol):
    """One kind of server with one model."""

    @property
    def served(self) -> Served:
        """What the server says of itself."""
        ...

    @property
    def path(self) -> str:
        """The path of completions."""
        ...

    def body(self, ask: Ask) -> Json:
        """Return the request that asks for tokens in a stream."""
        ...

    def read(self, event: Json) -> StreamPiece:
        """Return what an event of the stream says; raises KeyError, TypeError or ValueError for nonsense."""
        ...

    def tokenize(self, text: str) -> tuple[str, Json] | None:
        """Return the path and the body that ask for the token ids of a text, None if there is no such path."""
        ...


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
            "n_probs": TOP_OF_LLAMA_CPP,
            "return_tokens": True,
            "cache_prompt": True,
            "id_slot": ask.slot,
            "timings_per_token": True,
            "stream": True,
        }
        if ask.allowed is not None:
            body["logit_bias"] = [[token, BIAS_OF_LLAMA_CPP] for token in ask.allowed.tolist()]
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
