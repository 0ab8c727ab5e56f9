"""Decodes one answer in one arena: chooses the next token with as few passes as possible, and none twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from model_runtime.cancel import Cancel
from model_runtime.counts.view import MemoryView
from model_runtime.decoder.any_decoder import AnyDecoder, Likeliest
from model_runtime.engine.drafts import NO_DRAFT, Drafts, advance
from model_runtime.engine.ngram_cache import NgramCache
from model_runtime.engine.output import Output
from model_runtime.engine.pass_costs import PassCosts
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.logits import Logits, copied
from model_runtime.prompt.prompt import Prompt

STALE_AFTER = 8  # tokens after which the text an arena held before says nothing about the text to come

Spells = Callable[[int, bytes], bool]  # whether a token may come next while a stub has still to be spelled


@dataclass(frozen=True)
class DecodeContext:
    """What every answer is decoded with, and what is learnt from one for the next."""

    decoder: AnyDecoder
    sampler: Sampler
    costs: PassCosts
    drafts: Drafts


@dataclass
class DecodeStats:
    """What an answer cost, in tokens: of the prompt recomputed or computed ahead, known without a pass, drafted.

    `passes` counts decode passes.
    """

    recomputed: int = 0
    ahead: int = 0
    known: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0


class Choices:
    """The tokens chosen one after another after a prompt, each with the stub that it had to spell.

    A choice is a function of the tokens before it, the n-gram cache, its history and memory, and the stub. It also
    holds for a longer stub that it spells: the best of all tokens that fit the shorter stub is the best of those that
    fit the longer one. Only chances that were computed among the tokens of the shorter stub do not carry over. `fork`
    are the choices after another line that was preferred to these.
    """

    def __init__(self, ids: Ids, history: Ids, cache: NgramCache | None, memory: MemoryView | None = None) -> None:
        """Start without choices after the prompt `ids`; the n-gram cache reads `history` and `memory`."""
        self._ids, self._history, self._cache = ids, history, cache
        self._version = memory and memory.version  # not the memory itself, which would stay in RAM with an arena
        self._made: list[Choice] = []
        self._stubs: list[bytes] = []
        self.fork: Choices | None = None

    def add(self, position: int, choice: Choice, stub: bytes) -> None:
        """Record the choice at a position; another choice there discards all later ones."""
        n = position - len(self._ids)
        if n < len(self._made) and self._made[n].token == choice.token:
            if not (self._made[n].whole and stub.startswith(self._stubs[n])):
                self._made[n], self._stubs[n] = choice, stub
            return
        del self._made[n:], self._stubs[n:]
        self._made.append(choice)
        self._stubs.append(stub)

    def apply_to(self, ids: Ids, history: Ids, cache: NgramCache | None, memory: MemoryView | None = None) -> bool:
        """Return whether the choices hold after a prompt: the same one, or one continued with what was chosen."""
        chosen = len(ids) - len(self._ids)
        if not 0 <= chosen <= len(self._made) or (cache, memory and memory.version) != (self._cache, self._version):
            return False
        tokens = np.array([choice.token for choice in self._made[:chosen]], dtype=np.int32)
        return _goes_on(ids, self._ids, tokens) and _goes_on(history, self._history, tokens)

    def at(self, position: int, stub: bytes, spells: Spells) -> Choice | None:
        """Return the choice at a position if it is also the choice for this stub, else None."""
        n = position - len(self._ids)
        if not 0 <= n < len(self._made) or not stub.startswith(self._stubs[n]):
            return None
        made = self._made[n]
        same = stub == self._stubs[n] or (made.whole and spells(made.token, stub))
        return made if same else None


def recall_choices(
    arena: Arena, ids: Ids, history: Ids, cache: NgramCache | None, seen: MemoryView | None
) -> Choices:
    """Return the choices that an arena remembers after a row `ids`; without any, it remembers those to come."""
    memo = arena.memo if isinstance(arena.memo, Choices) else None
    for made in (memo, memo.fork if memo else None):
        if made and made.apply_to(ids, history, cache, seen):
            arena.memo = made
            return made
    arena.memo = choices = Choices(ids, history, cache, seen)
    return choices


def _goes_on(row: Ids, start: Ids, tokens: Ids) -> bool:
    return np.array_equal(row[: len(start)], start) and np.array_equal(row[len(start) :], tokens)


class Line(NamedTuple):
    """The first line of another answer, which departs from an answer after `at` of its tokens.

    `said` are all its tokens, and `output` is their text. `choices` are those after the departing token; `known` of
    them needed no pass. The `arena` holds keys and values of all but the last tokens.
    """

    at: int
    said: list[Choice]
    known: int
    output: Output
    choices: Choices
    arena: Arena


class Decoding:
    """Chooses the tokens after a `prompt` one by one; `count` of them so far, the first at `first_at` (perf_counter).

    The row is the prompt and the chosen tokens. The arena holds a prefix of the row, or the whole row followed by
    tokens of an earlier answer or of a draft, which are kept if they turn out right.
    """

    def __init__(
        self,
        context: DecodeContext,
        arena: Arena,
        prompt: Prompt,
        expected: Ids,
        limit: int,
        cancel: Cancel,
    ) -> None:
        """Begin after a prompt; at most `limit` tokens will be asked for, and `expected` ones are likely."""
        self.stats, self.count, self.first_at = DecodeStats(), 0, 0.0
        self.prompt, self.cancel, self.limit = prompt, cancel, limit
        self._context, self._arena = context, arena
        self._room = np.zeros(limit, dtype=np.int32)
        self._row = np.concatenate((prompt.ids, self._room))
        self._history = np.concatenate((prompt.history, self._room))
        self._rows: Sequence[Logits] = ()
        self._rows_at, self._draft, self._kind = 0, NO_DRAFT, 0
        self._likeliest: list[Likeliest] | None = None
        cache = context.sampler.ngram_cache
        self._choices = recall_choices(arena, prompt.ids, prompt.history, cache, prompt.memory)
        self._expected = self._begin(expected)

    @property
    def full(self) -> bool:
        """Whether arena or limit has no room for another token; there is always room for the first."""
        return self.count > 0 and (self.count == len(self._room) or self._length > self._arena.capacity)

    def next(self, stub: bytes) -> Choice:
        """Choose the next token, which must fit the stub; raises Cancelled instead of starting a pass."""
        choice = self._choices.at(self._length, stub, self._context.sampler.spells)
        if choice is None:
            logits, history = self._logits(stub), self._history[: len(self.prompt.history) + self.count]
            choice = self._context.sampler.pick(logits, history, stub, self._likeliest_here(), self.prompt.memory)
            self._choices.add(self._length, choice, stub)
        else:
            self.stats.known += 1
        self._take(choice.token)
        return choice

    def compute(self, count: int) -> None:
        """Compute what the arena lacks of the prompt and the first `count` chosen tokens: others copy it."""
        end = len(self.prompt.ids) + count
        self.stats.recomputed += max(0, len(self.prompt.ids) - self._arena.length)
        while (start := self._arena.length) < end:
            self._forward(self._row[start : min(end, start + self._context.costs.chunk)], 1)

    def follow(self, line: Line) -> None:
        """Continue after another line than the one chosen so far; its keys and values are copied."""
        self._choices.fork = self._choices = line.choices
        self.count, start = len(line.said), len(self.prompt.ids) + line.at
        for row, length in ((self._row, len(self.prompt.ids)), (self._history, len(self.prompt.history))):
            row[length : length + self.count] = [choice.token for choice in line.said]
        start = self._arena.truncate(start)
        end = min(line.arena.length, self._length)
        quality = line.arena.rows.worst(end)
        self._arena.copy_in(self._row[start:end], line.arena.copy_out(start, end), quality)
        self._rows, self._draft, self._expected = (), NO_DRAFT, NO_DRAFT
        # The departing token's choice was known as well.
        self.stats.known = min(self.stats.known, line.at + 1) + line.known

    @property
    def _length(self) -> int:
        return len(self.prompt.ids) + self.count

    def _begin(self, expected: Ids) -> Ids:
        """Truncate the arena to what the prompt shares with it; what lay beyond is expected if nothing better is."""
        ids, arena = self.prompt.ids, self._arena
        held = arena.common(ids)
        self.stats.ahead = arena.rows.ahead(held)
        arena.rows.mark_needed(held)
        if not len(expected) and len(ids) - held <= STALE_AFTER:
            expected = arena.ids[held:].copy()
            for token in ids[held:]:
                expected = advance(expected, int(token))
        if held < len(ids):
            arena.truncate(held)
        return expected

    def _take(self, token: int) -> None:
        """Continue after a token, with what the arena holds already if it holds that token."""
        n, arena = self._length, self._arena
        held = n < arena.length and int(arena.ids[n]) == token
        if 0 <= n - self._rows_at < len(self._draft):
            self._context.drafts.record(self._kind, held)
            self.stats.accepted += held
        if not held:
            arena.truncate(min(n, arena.length))
            self._rows, self._draft = (), NO_DRAFT
        self._row[n] = self._history[len(self.prompt.history) + self.count] = token
        self._expected = advance(self._expected, token)
        self.first_at = self.first_at or perf_counter()
        self.count += 1

    def _logits(self, stub: bytes) -> Logits:
        """Return the logits [vocab] that follow the row."""
        n = self._length
        if self._arena.logits is not None and self._arena.logits_at == n:
            return self._arena.logits
        if not 0 <= n - self._rows_at < len(self._rows):
            self._pass(stub)
        return self._rows[n - self._rows_at]

    def _likeliest_here(self) -> Likeliest | None:
        """Return the likeliest tokens after the row, if a pass of this answer listed them."""
        at = self._length - self._rows_at
        return self._likeliest[at] if self._likeliest and 0 <= at < len(self._rows) else None

    def _pass(self, stub: bytes) -> None:
        """Compute what the arena lacks of the row, together with a draft."""
        n, arena = self._length, self._arena
        if arena.length >= n:  # keys and values are there but no logits: compute the last token once more
            self._expected = self._expected if len(self._expected) else arena.ids[n:].copy()
            arena.truncate(n - 1)
        self.stats.recomputed += max(0, len(self.prompt.ids) - arena.length)
        self.stats.passes += self.count > 0
        while n - arena.length > (chunk := self._context.costs.chunk):
            self._forward(self._row[arena.length : arena.length + chunk], 1)
        self._draft, self._kind = self._propose_draft(stub)
        self.stats.drafted += len(self._draft)
        self._rows_at = n
        ids = np.concatenate((self._row[arena.length : n], self._draft))
        self._rows = [*self._forward(ids, 1 + len(self._draft))]
        self._likeliest = self._context.decoder.likeliest
        if not self.count:
            arena.keep_logits(copied(self._rows[0]), n)

    def _propose_draft(self, stub: bytes) -> tuple[Ids, int]:
        """Return a draft and its kind; while a stub has to be spelled, only expected tokens are drafted."""
        if stub and not (len(self._expected) and self._context.sampler.spells(int(self._expected[0]), stub)):
            return NO_DRAFT, 0
        most = min(len(self._room) - self.count - 1, self._arena.capacity - self._length)
        history = self._history[: len(self.prompt.history) + self.count]
        costs, memory = self._context.costs, self.prompt.memory
        draft, kind = self._context.drafts.propose(history, self._expected, costs, memory)
        return draft[: max(most, 0)], kind

    def _forward(self, ids: Ids, rows: int) -> Logits:
        self.cancel.check()
        began = perf_counter()
        logits = self._context.decoder.forward(ids, self._arena, rows)
        self._context.costs.record(len(ids), (perf_counter() - began) * 1e3)
        return logits
