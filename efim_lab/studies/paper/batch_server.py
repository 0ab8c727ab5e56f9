"""Serves several users with one model: prompts first, then one token for each user per pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from model_runtime.decoder.any_decoder import AnyDecoder, Span
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.sequence_key import SequenceKey


class Answer(NamedTuple):
    """One answered request: `reused` of its `prompt` tokens were in the arena; `seconds` until its last token."""

    user: int
    prompt: int
    reused: int
    seconds: float
    tokens: tuple[int, ...]


class User:
    """A user who sends the next prompt as soon as an answer of exactly `tokens` tokens is complete.

    The arena belongs to this user alone; an answer stays in it until a prompt diverges from it. `generated` counts
    the tokens of all answers so far. Times are in seconds of the server's clock.
    """

    def __init__(self, number: int, arena: Arena, prompts: Sequence[Ids], tokens: int, reuses: bool) -> None:
        """Send the first prompt at time 0, with an empty arena."""
        self.arena, self.generated = arena, 0
        self._number, self._tokens, self._reuses = number, tokens, reuses
        self._prompts = iter(prompts)
        arena.truncate(0)
        self._ask(0.0)

    @property
    def is_active(self) -> bool:
        """Whether an answer is due."""
        return self._prompt is not None

    @property
    def in_prefill(self) -> bool:
        """Whether an answer is due that has no token yet."""
        return self.is_active and not self._chosen

    def next_ids(self, most: int) -> Ids:
        """Return up to `most` tokens of the prompt that the arena lacks or, after those, the last token chosen."""
        assert self._prompt is not None
        if self._chosen:
            return np.array(self._chosen[-1:], dtype=np.int32)
        return self._prompt[self.arena.length : self.arena.length + most]

    def take(self, token: int, now: float) -> Answer | None:
        """Accept the token that follows the computed tokens; return the answer if the token completes it."""
        assert self._prompt is not None
        if self.arena.length < len(self._prompt):
            return None
        self._chosen.append(token)
        self.generated += 1
        if len(self._chosen) < self._tokens:
            return None
        answer = Answer(self._number, len(self._prompt), self._reused, now - self._asked, tuple(self._chosen))
        self._ask(now)
        return answer

    def _ask(self, now: float) -> None:
        self._asked, self._chosen = now, list[int]()
        self._prompt = next(self._prompts, None)
        if self._prompt is not None:
            held = self.arena.common(SequenceKey(self._prompt)) if self._reuses else 0
            self._reused = min(held, len(self._prompt) - 1)
            self.arena.truncate(self._reused)


class BatchServer:
    """Answers all users' prompts concurrently, each user's in order, with the likeliest tokens.

    `seconds` is a clock that runs during passes only, so that several servers can take turns.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        arenas: Sequence[Arena],
        prompts: Sequence[Sequence[Ids]],
        tokens: int,
        reuses: bool,
    ) -> None:
        """Start the clock at 0; each user's arena must hold a prompt and its answer of `tokens` tokens."""
        self.seconds, self.answers = 0.0, list[Answer]()
        self._decoder = decoder
        each = zip(arenas, prompts, strict=True)
        self._users = [User(number, arena, asked, tokens, reuses) for number, (arena, asked) in enumerate(each)]

    @property
    def done(self) -> bool:
        """Whether all prompts have been answered."""
        return not any(user.is_active for user in self._users)

    @property
    def generated(self) -> int:
        """The number of tokens of all answers so far."""
        return sum(user.generated for user in self._users)

    def step(self) -> int:
        """Compute one pass and give each user in it the token that follows; return the number of new answers."""
        began, before = perf_counter(), len(self.answers)
        due = list(_due([user for user in self._users if user.is_active], self._decoder.chunk))
        logits = self._decoder.forward_spans([Span(ids, user.arena) for user, ids in due])
        likeliest: npt.NDArray[np.int64] = torch.as_tensor(logits).argmax(-1).cpu().numpy()
        self.seconds += perf_counter() - began
        answers = [user.take(int(token), self.seconds) for (user, _), token in zip(due, likeliest, strict=True)]
        self.answers += filter(None, answers)
        return len(self.answers) - before


def _due(users: Sequence[User], room: int) -> Iterator[tuple[User, Ids]]:
    """Yield the prompts' tokens that fit in a pass or, if no prompt is left to prefill, one token per user."""
    waiting = [user for user in users if user.in_prefill]
    if not waiting:
        yield from ((user, user.next_ids(1)) for user in users)
    for user in waiting:
        if room:
            ids = user.next_ids(room)
            room -= len(ids)
            yield user, ids
