"""Other answers to a prompt: each departs from the first answer at one place, and all share the same passes.

They are alternatives to choose from, or lines that may be likelier than the first answer's, which is greedy: a
likeliest token can be followed by unlikely ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.cancel import Cancel
from model_runtime.decoder.any_decoder import AnyDecoder, Likeliest, Span
from model_runtime.engine.decoding import Decoding, Line, recall_choices
from model_runtime.engine.output import Output, Rule
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import Owner, Pool
from model_runtime.logits import Logits
from model_runtime.prompt.prompt import Prompt

_NONE = np.zeros(0)
MOST_LINES = 3  # compared with the first answer's; seven find no better one
SURE = 0.5  # probability of a line from which no other can be likelier


class Fork(NamedTuple):
    """Where another answer begins: with another choice after `at` tokens of the first answer.

    `probability` is that of all tokens up to and including it.
    """

    at: int
    choice: Choice
    probability: float


class Alternatives:
    """Finds other answers, each in a spare arena of the pool. Used on the engine thread only."""

    def __init__(
        self, decoder: AnyDecoder, sampler: Sampler, pool: Pool[Arena], ends: Collection[int], line_tokens: int
    ) -> None:
        """Share the engine's parts; `ends` are the tokens that end a text.

        A likelier line may have `line_tokens` after the token with which it departs; if that is 0, none is sought.
        """
        self._decoder, self._sampler, self._pool, self._ends = decoder, sampler, pool, ends
        self._line_tokens = line_tokens

    def generate(
        self,
        prompt: Prompt,
        said: Sequence[Choice],
        rule: Rule,
        limit: int,
        count: int,
        cancel: Cancel,
    ) -> list[str]:
        """Return at most `count` other texts of at most `limit` tokens, those with the likeliest beginning first.

        `said` is the first answer. Raises Cancelled soon after `cancel()` is true.
        """
        most = min(count, self._pool.provide(count + 1) - 1)
        begun = [
            [*said[: place.at], place.choice] for place in forks(self._sampler, said, prompt.stub, self._ends, most)
        ]
        tails = self._start(prompt, begun, rule, [limit] * len(begun))
        self._finish(tails, cancel, lambda: [tail for tail in tails if not tail.done])
        return [tail.output.text for tail in tails]

    def likelier_line(self, decoding: Decoding, said: Sequence[Choice], output: Output, rule: Rule) -> Line | None:
        """Return the likeliest first line that departs from `said`, None unless it is likelier than that one's.

        `said` is the first line of an answer that is being decoded, `output` its text. Which line is returned does
        not depend on what was computed before. Raises Cancelled instead of starting a pass when stopped.
        """
        wanted = MOST_LINES if self._line_tokens and output.confidence < SURE else 0
        most = min(wanted, self._pool.provide(2 * wanted) // 2)
        places = forks(self._sampler, said, decoding.prompt.stub, self._ends, most, output.confidence)
        if not places:
            return None
        decoding.compute(max(place.at for place in places))
        begun = [[*said[: place.at], place.choice] for place in places]
        limits = [min(decoding.limit, len(each) + self._line_tokens) for each in begun]
        tails = self._start(decoding.prompt, begun, rule, limits, line=True)
        decoding.stats.passes += self._finish(tails, decoding.cancel, lambda: _undecided(tails, output.confidence))
        best = max(tails, key=lambda tail: tail.output.confidence if tail.is_line else 0.0)
        if not (best.is_line and best.output.confidence > output.confidence):
            return None
        at = places[tails.index(best)].at
        return Line(at, best.said, best.known, best.output, best.choices, best.arena)

    def _start(
        self,
        prompt: Prompt,
        begun: Sequence[Sequence[Choice]],
        rule: Rule,
        limits: Sequence[int],
        line: bool = False,
    ) -> list[_Tail]:
        """Begin to decode answers or lines, in arenas that all documents share: frames are worth more."""
        tails = list[_Tail]()
        owners = [Owner("", -number) for number in range(1, len(begun) + 1)]
        for fork, choices, limit in zip(owners, begun, limits, strict=True):
            ids = np.concatenate((prompt.ids, _tokens(choices)))
            arena = self._pool.acquire(fork, ids[:-1], worth=1, excerpts=prompt.isolated)
            output = Output(self._sampler, self._ends, prompt.stub, rule, prompt.history)
            tails.append(_Tail(self._sampler, output, arena, prompt, choices, limit, line))
        self._pool.release(owners)
        return tails

    def _finish(self, tails: Sequence[_Tail], cancel: Cancel, undecided: Callable[[], list[_Tail]]) -> int:
        """Decode all that are undecided in the same passes, and return their number; raises Cancelled."""
        passes = 0
        while going := undecided():
            cancel.check()
            self._advance(going)
            passes += 1
        return passes

    def _advance(self, tails: Sequence[_Tail]) -> None:
        """Compute one pass for all of them."""
        spans = [tail.span(self._decoder.chunk) for tail in tails]
        rows = self._decoder.forward_spans(spans)
        listed = self._decoder.likeliest or [None] * len(rows)
        for tail, row, likeliest in zip(tails, rows, listed, strict=True):
            if tail.ready:
                tail.extend(row, likeliest)


class _Tail:
    """An answer being decoded, in an arena that holds the beginning of its row; `said` are its tokens so far.

    `choices` are those after its fork, which its arena remembers; `known` of them needed no pass.
    """

    def __init__(
        self,
        sampler: Sampler,
        output: Output,
        arena: Arena,
        prompt: Prompt,
        begun: Sequence[Choice],
        limit: int,
        line: bool,
    ) -> None:
        """Continue after the tokens `begun`, up to `limit` tokens of the answer or, if it is a `line`, to its end."""
        self.output, self.arena, self.said, self.known = output, arena, list[Choice](), 0
        self._sampler, self._limit, self._line = sampler, limit, line
        self._ids, self._history, self._memory = prompt.ids, prompt.history, prompt.memory
        room = np.zeros(max(limit, len(begun)), dtype=np.int32)
        self._rows = [np.concatenate((row, room)) for row in (prompt.ids, prompt.history)]
        for choice in begun:
            self._take(choice)
        self.choices = recall_choices(arena, self._ids, self._history, sampler.ngram_cache, self._memory)
        while not self.done and (known := self.choices.at(len(self._ids), output.stub, sampler.spells)):
            self._take(known)
            self.known += 1
        arena.truncate(min(arena.common(self._ids), len(self._ids) - 1))

    @property
    def done(self) -> bool:
        """Whether the answer, or its first line, is complete or has no room for another token."""
        ended = self.output.line_ended if self._line else self.output.complete
        return ended or len(self.said) >= self._limit or len(self._ids) > self.arena.capacity

    @property
    def is_line(self) -> bool:
        """Whether the answer has a whole first line that is not blank: a blank line is not a suggestion."""
        return self.output.line_ended and bool(self.output.text.strip())

    @property
    def ready(self) -> bool:
        """Whether the arena holds the whole row."""
        return self.arena.length == len(self._ids)

    def span(self, chunk: int) -> Span:
        """Return what the arena lacks of the row, at most a chunk; that can include the whole prompt."""
        start = self.arena.length
        return Span(self._ids[start : start + chunk], self.arena)

    def extend(self, logits: Logits, likeliest: Likeliest | None) -> None:
        """Choose the next token by the logits [vocab] that follow the row."""
        choice = self._sampler.pick(logits, self._history, self.output.stub, likeliest, self._memory)
        self.choices.add(len(self._ids), choice, self.output.stub)
        self._take(choice)

    def _take(self, choice: Choice) -> None:
        self.output.append(choice)
        self.said.append(choice)
        row, history = self._rows
        at, end = len(self._ids), len(self._history)
        row[at] = history[end] = choice.token
        self._ids, self._history = row[: at + 1], history[: end + 1]


def _undecided(tails: Sequence[_Tail], least: float) -> list[_Tail]:
    """Return those that may still become the likeliest line: probabilities only fall."""
    least = max([least, *(tail.output.confidence for tail in tails if tail.is_line)])
    return [tail for tail in tails if not tail.done and tail.output.confidence >= least]


def forks(
    sampler: Sampler, said: Sequence[Choice], stub: bytes, ends: Collection[int], count: int, least: float = 0.0
) -> list[Fork]:
    """Return the `count` likeliest places where another answer departs from `said`, after a prompt with this stub.

    Each is likelier than `least`. Tokens that merely spell the same text in other pieces are left out, and those that
    begin like a likelier one at the same place.
    """
    if count <= 0:
        return []
    spelled, starts, stubs = b"", list[int](), list[bytes]()
    probabilities, reached = list[npt.NDArray[np.float64]](), 1.0
    for choice in said:
        starts.append(len(spelled))
        stubs.append(stub)
        total = sampler.total(choice, stub)
        beside = reached * (total - choice.chance) / total  # of all others together
        probabilities.append(choice.chances * np.float64(reached / total) if beside > least else _NONE)
        reached *= choice.chance / total
        piece = sampler.token_bytes[choice.token]
        spelled, stub = spelled + piece, stub[len(piece) :]
    kept: list[Fork] = []
    for at, index in _likeliest_first(probabilities, least):
        choice, probability = said[at], float(probabilities[at][index])
        token, chance = int(choice.likely[index]), float(choice.chances[index])
        begun = sampler.token_bytes[token]
        rivals = [sampler.token_bytes[fork.choice.token] for fork in kept if fork.at == at]
        if (
            token not in ends
            and (not stubs[at] or sampler.spells(token, stubs[at]))
            and not spelled.startswith(begun, starts[at])
            and not any(each.startswith(begun) or begun.startswith(each) for each in rivals)
        ):
            kept.append(Fork(at, choice._replace(token=token, chance=chance), probability))
            if len(kept) == count:
                break
    return kept


def _likeliest_first(probabilities: Sequence[npt.NDArray[np.float64]], least: float) -> Iterator[tuple[int, int]]:
    """Yield the row and the column of all that exceed `least`."""
    joined = np.concatenate([*probabilities, _NONE])
    places = np.flatnonzero(joined > least)
    order = places[np.argsort(-joined[places], kind="stable")]
    starts = list(accumulate(map(len, probabilities), initial=0))
    for place in order.tolist():
        row = bisect_right(starts, place) - 1
        yield row, place - starts[row]


def _tokens(choices: Sequence[Choice]) -> Ids:
    return np.array([choice.token for choice in choices], dtype=np.int32)
