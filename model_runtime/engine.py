"""Answers prompts: reuses the arena's tokens, computes the rest in chunks, decodes greedily until a stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from model_runtime.arena import Arena, ArenaPool
from model_runtime.decoder import Decoder
from model_runtime.ids import Ids
from model_runtime.local_cache import LocalCache
from model_runtime.prompt import Prompt
from model_runtime.stops import StopRule
from model_runtime.tokenizer import Tokenizer
from model_runtime.vocabulary import Vocabulary

CHUNK = 64  # tokens of one prefill pass: how long a newer request may have to wait


class Stopped(Exception):
    """Someone else's request came first; what was computed so far stays in the arena."""


@dataclass(frozen=True)
class Generation:
    """New text after the prompt's typed text, and what it cost; times in milliseconds.

    `prefill_ms` runs to the first new token. `complete` is false where the limit of new tokens cut the text off.
    """

    text: str
    reused: int
    recomputed: int
    new_tokens: int
    prefill_ms: float
    decode_ms: float
    complete: bool


class Engine:
    """Generates with one decoder. Used on the engine thread only."""

    def __init__(
        self, decoder: Decoder, tokenizer: Tokenizer, pool: ArenaPool, local_cache: LocalCache | None
    ) -> None:
        """Take over the parts; a `local_cache` mixes the document's own next-token counts into the model's."""
        self._decoder, self._tokenizer, self._pool = decoder, tokenizer, pool
        self._local_cache = local_cache
        self._vocabulary = Vocabulary(tokenizer.token_bytes)
        self._ends = frozenset(tokenizer.special.values()) | frozenset(decoder.config.end_ids)

    def mixing(self, local_cache: LocalCache | None) -> Engine:
        """An engine over the same model and arenas that mixes other counts in, or none."""
        return Engine(self._decoder, self._tokenizer, self._pool, local_cache)

    def generate(
        self, owner: str, prompt: Prompt, rule: StopRule, limit: int, stopped: Callable[[], bool]
    ) -> Generation:
        """Complete the prompt greedily by at most `limit` tokens; raises Stopped soon after `stopped()` is true."""
        started = perf_counter()
        arena = self._pool.take(owner, prompt.ids)
        reused, logits = self._prefill(arena, prompt.ids, stopped)
        prefilled = perf_counter()
        spelled, count, complete = self._decode(arena, logits, prompt, rule, limit, stopped)
        return Generation(
            text=_finished(spelled, rule, complete),
            reused=reused,
            recomputed=len(prompt.ids) - reused,
            new_tokens=count,
            prefill_ms=(prefilled - started) * 1e3,
            decode_ms=(perf_counter() - prefilled) * 1e3,
            complete=complete,
        )

    @property
    def capacity(self) -> int:
        """Most tokens of a prompt and its answer together."""
        return self._pool.capacity

    def reusable(self, owner: str, ids: Ids) -> int:
        """Tokens of the owner's prompt that are computed already; changes nothing."""
        return self._pool.reusable(owner, ids)

    def release(self, owner: str) -> None:
        """Say that the owner is not in use any more."""
        self._pool.release(owner)

    def _prefill(self, arena: Arena, ids: Ids, stopped: Callable[[], bool]) -> tuple[int, torch.Tensor]:
        """Bring the arena to exactly `ids`; returns the number of tokens reused and the logits that follow."""
        reused = arena.reusable(ids)
        arena.truncate(reused)
        for at in range(reused, len(ids), CHUNK):
            if stopped():
                raise Stopped
            arena.keep_logits(self._decoder.forward(ids[at : at + CHUNK], arena))
        assert arena.logits is not None
        return reused, arena.logits

    def _decode(
        self,
        arena: Arena,
        logits: torch.Tensor,
        prompt: Prompt,
        rule: StopRule,
        limit: int,
        stopped: Callable[[], bool],
    ) -> tuple[bytes, int, bool]:
        """Return the bytes spelled after the stub, the number of tokens and whether a rule ended them.

        A token's keys and values are computed only when a further token is wanted: the last one is never paid for.
        """
        stub, spelled, past, count = prompt.stub, b"", len(prompt.history), 0
        history = np.concatenate((prompt.history, np.zeros(limit, dtype=np.int32)))
        while True:
            token = self._pick(logits, history[: past + count], stub)
            history[past + count] = token
            count += 1
            if token in self._ends:
                return spelled, count, True
            piece = self._tokenizer.token_bytes[token]
            stub, piece = stub[len(piece) :], piece[len(stub) :]
            spelled += piece
            if rule.cut(_text(spelled)) is not None:
                return spelled, count, True
            if count >= limit or arena.length == arena.capacity:
                return spelled, count, False
            if stopped():
                raise Stopped
            logits = self._decoder.forward(np.array([token], dtype=np.int32), arena)

    def _pick(self, logits: torch.Tensor, history: Ids, stub: bytes) -> int:
        """Most likely next token that spells on with the stub (any, where the stub is spelled out)."""
        logits = logits[: self._tokenizer.vocab]  # a model's vocabulary may be padded
        scores = logits.numpy()
        if self._local_cache is not None:
            scores = self._local_cache.mix(torch.softmax(logits, dim=-1).numpy(), history)
        if not stub:
            return int(scores.argmax())
        fitting = self._vocabulary.fitting(stub)
        return int(fitting[scores[fitting].argmax()])


def _text(spelled: bytes) -> str:
    return spelled.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")


def _finished(spelled: bytes, rule: StopRule, complete: bool) -> str:
    """The text up to where the rule ends it; of several lines that the limit cut off, the whole ones."""
    text = _text(spelled)
    return text[: rule.cut(text)] if complete or "\n" not in text else text.rpartition("\n")[0]
