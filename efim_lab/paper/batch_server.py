"""Several users at one model: prompts first, then a token for each of them in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.arena.arena import Arena
from model_runtime.decoder.decoder import AnyDecoder, Span
from model_runtime.ids import Ids


class Answer(NamedTuple):
    """One request: `reused` of its `prompt` tokens were in the arena; `seconds` from asking to the last token."""

    user: int
    prompt: int
    reused: int
    seconds: float
    tokens: tuple[int, ...]


class User:
    """One who asks, and asks the next as soon as an answer of exactly `tokens` tokens is there.

    The arena is theirs alone. What was answered stays in it until a prompt does not go on with it. `said` counts the
    tokens of all answers so far. Times are in seconds of the clock of whoever serves.
    """

    def __init__(self, number: int, arena: Arena, prompts: Sequence[Ids], tokens: int, reuses: bool) -> None:
        """Ask for the first time, at 0, with nothing in the arena."""
        self.arena, self.said = arena, 0
        self._number, self._tokens, self._reuses = number, tokens, reuses
        self._prompts = iter(prompts)
        arena.truncate(0)
        self._ask(0.0)

    @property
    def asks(self) -> bool:
        """Whether an answer is due."""
        return self._prompt is not None

    @property
    def waits(self) -> bool:
        """Whether an answer is due of which there is no token yet."""
        return self.asks and not self._chosen

    def lacking(self, most: int) -> Ids:
        """What the arena lacks of the prompt, at most so many tokens; behind the prompt the token chosen last."""
        assert self._prompt is not None
        if self._chosen:
            return np.array(self._chosen[-1:], dtype=np.int32)
        return self._prompt[self.arena.length : self.arena.length + most]

    def take(self, token: int, now: float) -> Answer | None:
        """Take the token that follows what was computed; returns the answer if that is its last one."""
        assert self._prompt is not None
        if self.arena.length < len(self._prompt):
            return None
        self._chosen.append(token)
        self.said += 1
        if len(self._chosen) < self._tokens:
            return None
        answer = Answer(self._number, len(self._prompt), self._reused, now - self._asked, tuple(self._chosen))
        self._ask(now)
        return answer

    def _ask(self, now: float) -> None:
        self._asked, self._chosen = now, list[int]()
        self._prompt = next(self._prompts, None)
        if self._prompt is not None:
            self._reused = min(self.arena.common(self._prompt), len(self._prompt) - 1) if self._reuses else 0
            self.arena.truncate(self._reused)


class BatchServer:
    """Answers the prompts of each user one after the other, those of all users at a time, by the likeliest tokens.

    `seconds` is a clock that runs during passes only, so that several of these can take turns.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        arenas: Sequence[Arena],
        prompts: Sequence[Sequence[Ids]],
        tokens: int,
        reuses: bool,
    ) -> None:
        """Begin at 0; each user's arena has room for a prompt and its answer of `tokens` tokens."""
        self.seconds, self.answers = 0.0, list[Answer]()
        self._decoder = decoder
        each = zip(arenas, prompts, strict=True)
        self._users = [User(number, arena, asked, tokens, reuses) for number, (arena, asked) in enumerate(each)]

    @property
    def done(self) -> bool:
        """Whether nobody asks any more."""
        return not any(user.asks for user in self._users)

    @property
    def said(self) -> int:
        """Tokens of all answers so far."""
        return sum(user.said for user in self._users)

    def step(self) -> int:
        """Compute one pass of what is due first and give each user the token that follows; returns new answers."""
        began, before = perf_counter(), len(self.answers)
        due = list(_due([user for user in self._users if user.asks], self._decoder.chunk))
        logits = self._decoder.forward_spans([Span(ids, user.arena) for user, ids in due])
        likeliest: npt.NDArray[np.int64] = logits.argmax(-1).cpu().numpy()
        self.seconds += perf_counter() - began
        answers = [user.take(int(token), self.seconds) for (user, _), token in zip(due, likeliest, strict=True)]
        self.answers += filter(None, answers)
        return len(self.answers) - before


def _due(users: Sequence[User], room: int) -> Iterator[tuple[User, Ids]]:
    """Tokens of prompts, as many as there is room for in a pass; where no prompt waits, a token of every user."""
    waiting = [user for user in users if user.waits]
    if not waiting:
        yield from ((user, user.lacking(1)) for user in users)
    for user in waiting:
        if room:
            ids = user.lacking(room)
            room -= len(ids)
            yield user, ids
