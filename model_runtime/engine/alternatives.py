"""Other answers to a prompt: each departs from the first answer at one place, and all share the same passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch

from model_runtime.arena.arena import Arena
from model_runtime.arena.pool import Owner, Pool
from model_runtime.decoder.decoder import AnyDecoder, Likeliest, Span
from model_runtime.engine.decoding import Stopped
from model_runtime.engine.output import Output, Rule
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.ids import Ids
from model_runtime.prompt.prompt import Prompt


class Fork(NamedTuple):
    """Where another answer begins: with another token after `at` tokens of the first answer.

    `probability` is that of all tokens up to and including it.
    """

    at: int
    token: int
    probability: float


class Alternatives:
    """Finds other answers, each in a spare arena of the pool. Used on the engine thread only."""

    def __init__(self, decoder: AnyDecoder, sampler: Sampler, pool: Pool[Arena], ends: Collection[int]) -> None:
        """Share the engine's parts; `ends` are the tokens that end a text."""
        self._decoder, self._sampler, self._pool, self._ends = decoder, sampler, pool, ends

    def generate(
        self,
        owner: Owner,
        prompt: Prompt,
        said: Sequence[Choice],
        rule: Rule,
        limit: int,
        count: int,
        stopped: Callable[[], bool],
    ) -> list[str]:
        """Return at most `count` other texts of at most `limit` tokens, those with the likeliest beginning first.

        `said` is the first answer. Raises Stopped soon after `stopped()` is true.
        """
        most = min(count, self._pool.size - 1)
        places = forks(self._sampler, said, prompt.stub, self._ends, most) if most > 0 else []
        owners = [Owner(owner.document, -number) for number in range(1, len(places) + 1)]
        try:
            tails = [self._start_tail(*each, prompt, said, rule, limit) for each in zip(owners, places, strict=True)]
            while going := [tail for tail in tails if not tail.done]:
                if stopped():
                    raise Stopped
                self._advance(going)
        finally:
            self._pool.release(owners)  # forks are not used again: the arenas of frames are worth more
        return [tail.output.text for tail in tails]

    def _start_tail(
        self, owner: Owner, place: Fork, prompt: Prompt, said: Sequence[Choice], rule: Rule, limit: int
    ) -> _Tail:
        begun = [*said[: place.at], said[place.at]._replace(token=place.token)]
        ids = np.concatenate((prompt.ids, _tokens(begun)))
        arena = self._pool.acquire(owner, ids[:-1])
        return _Tail(Output(self._sampler, self._ends, prompt.stub, rule), arena, prompt, begun, limit)

    def _advance(self, tails: Sequence[_Tail]) -> None:
        """Compute one pass for all of them."""
        spans = [tail.span(self._decoder.chunk) for tail in tails]
        rows = self._decoder.forward_spans(spans)
        listed = self._decoder.likeliest or [None] * len(rows)
        for tail, row, likeliest in zip(tails, rows, listed, strict=True):
            if tail.ready:
                tail.extend(self._sampler, row, likeliest)


class _Tail:
    """An answer being decoded, in an arena that holds the beginning of its row."""

    def __init__(self, output: Output, arena: Arena, prompt: Prompt, begun: Sequence[Choice], limit: int) -> None:
        """Continue after the tokens `begun`, up to `limit` tokens of the answer."""
        self.output, self._arena, self._left = output, arena, limit
        self._ids, self._history = prompt.ids, prompt.history
        for choice in begun:
            self._take(choice)
        arena.truncate(min(arena.common(self._ids), len(self._ids) - 1))

    @property
    def done(self) -> bool:
        """Whether the answer is complete or has no room for another token."""
        return self.output.complete or not self._left or len(self._ids) > self._arena.capacity

    @property
    def ready(self) -> bool:
        """Whether the arena holds the whole row."""
        return self._arena.length == len(self._ids)

    def span(self, chunk: int) -> Span:
        """Return what the arena lacks of the row, at most a chunk; that can include the whole prompt."""
        start = self._arena.length
        return Span(self._ids[start : start + chunk], self._arena)

    def extend(self, sampler: Sampler, logits: torch.Tensor, likeliest: Likeliest | None) -> None:
        """Choose the next token by the logits [vocab] that follow the row."""
        self._take(sampler.pick(logits, self._history, self.output.stub, likeliest))

    def _take(self, choice: Choice) -> None:
        self.output.append(choice)
        self._left -= 1
        self._ids, self._history = (np.append(row, np.int32(choice.token)) for row in (self._ids, self._history))


def forks(sampler: Sampler, said: Sequence[Choice], stub: bytes, ends: Collection[int], count: int) -> list[Fork]:
    """Return the `count` likeliest places where another answer departs from `said`, after a prompt with this stub.

    Tokens that merely spell the same text in other pieces are left out.
    """
    found: list[Fork] = []
    reached = 1.0
    for at, choice in enumerate(said):
        spelled = b"".join(sampler.token_bytes[each.token] for each in said[at:])
        total = sampler.total(choice, stub)
        found += [
            Fork(at, token, reached * chance / total)
            for token, chance in sampler.likely(choice, stub)
            if token not in ends and not spelled.startswith(sampler.token_bytes[token])
        ]
        reached *= choice.chance / total
        stub = stub[len(sampler.token_bytes[choice.token]) :]
    return _unlike(sampler, sorted(found, key=lambda fork: -fork.probability), count)


def _unlike(sampler: Sampler, found: Sequence[Fork], count: int) -> list[Fork]:
    """Return the first `count` of them, skipping those that begin like an earlier one at the same place."""
    kept: list[Fork] = []
    for fork in found:
        spelled = sampler.token_bytes[fork.token]
        rivals = [sampler.token_bytes[each.token] for each in kept if each.at == fork.at]
        if len(kept) < count and not any(each.startswith(spelled) or spelled.startswith(each) for each in rivals):
            kept.append(fork)
    return kept


def _tokens(choices: Sequence[Choice]) -> Ids:
    return np.array([choice.token for choice in choices], dtype=np.int32)
