"""Other answers to a prompt: each departs from the first answer at one place, and all share the same passes.

They are alternatives to choose from, or lines that may be better (likelier) than the first answer's, which is greedy:
a likeliest token can be followed by unlikely ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.cancel import Cancel
from model_runtime.engine.decode import DecodeContext, DecodedAnswer, at_end, at_line_end, decode
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.engine.stops import Rule
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.prompt.prompt import Prompt

_NONE = np.zeros(0)
MOST_LINES = 3  # compared with the first answer's; seven find no better one
SURE = 0.5  # probability of a line from which no other can be likelier


class Fork(NamedTuple):
    """Where another answer begins: with another choice after `at` tokens of the first answer.

    `probability` is the joint probability of all tokens up to and including it.
    """

    at: int
    choice: Choice
    probability: float


class Alternatives:
    """Finds other answers, each in a spare arena of the pool. Used on the engine thread only."""

    def __init__(self, context: DecodeContext, pool: Pool[Arena], line_tokens: int) -> None:
        """Share the engine's parts.

        A better line may have `line_tokens` after the token with which it departs; if that is 0, none is sought.
        """
        self._context, self._pool, self._line_tokens = context, pool, line_tokens

    def generate(
        self, prompt: Prompt, chosen: Sequence[Choice], rule: Rule, limit: int, count: int, cancel: Cancel
    ) -> list[str]:
        """Return at most `count` other texts of at most `limit` tokens, those with the likeliest first line first.

        `chosen` are the tokens of the first answer, from whose first line the others depart. Raises Cancelled soon
        after `cancel()` is true.
        """
        most = min(count, self._pool.provide(count + 1) - 1)
        if most <= 0:
            return []
        places = list(islice(line_forks(self._context.sampler, chosen, prompt.stub, rule), most))
        answers = self._start(prompt, rule, limit, [[*chosen[: place.at], place.choice] for place in places])
        decode(self._context, answers, at_end, cancel)
        answers.sort(key=lambda answer: -answer.output.confidence)
        return [answer.output.text for answer in answers]

    def better_line(self, first: DecodedAnswer, cancel: Cancel) -> DecodedAnswer:
        """Return the answer with the likeliest first line: `first`, or an answer that departs from its line.

        `first` has been decoded up to the end of its first line; the returned one goes on in its arena. The choice
        does not depend on earlier work. Raises Cancelled instead of starting a pass.
        """
        wanted = MOST_LINES if self._line_tokens and first.output.confidence < SURE else 0
        most = min(wanted, self._pool.provide(2 * wanted) // 2)
        found = forks(self._context.sampler, first.chosen, first.prompt.stub, first.output.confidence)
        places = list(islice(found, most))
        if not places:
            return first
        first.compute(max(place.at for place in places), cancel)
        starts = [[*first.chosen[: place.at], place.choice] for place in places]
        others = self._start(first.prompt, first.rule, first.limit, starts)
        for other in others:  # where the choice that it departs from was known, so was its own first token
            other.stats = replace(first.stats, known=min(first.stats.known, other.given))

        def decided(answer: DecodedAnswer) -> bool:
            """Return whether an answer cannot become the likeliest any more: probabilities only fall."""
            if answer is first or at_line_end(answer) or len(answer.chosen) >= answer.given + self._line_tokens:
                return True
            return answer.output.confidence < _likeliest(first, others).output.confidence

        decode(self._context, [first, *others], decided, cancel)
        best = _likeliest(first, others)
        if best is not first:
            best.move_to(first)
        return best

    def _start(
        self, prompt: Prompt, rule: Rule, limit: int, starts: Sequence[Sequence[Choice]]
    ) -> list[DecodedAnswer]:
        """Begin to decode answers in arenas that all documents share: frames are worth more."""
        answers = list[DecodedAnswer]()
        owners = [FrameId("", -number) for number in range(1, len(starts) + 1)]
        for owner, start in zip(owners, starts, strict=True):
            first = np.array([choice.token for choice in start[:-1]], dtype=np.int32)
            key = prompt.key._replace(ids=np.concatenate((prompt.ids, first)))
            arena = self._pool.acquire(owner, key, min_copied=1)
            answers.append(DecodedAnswer(self._context, arena, prompt, rule, limit, start))
        self._pool.release(owners)
        return answers


def _likeliest(first: DecodedAnswer, others: Sequence[DecodedAnswer]) -> DecodedAnswer:
    """Return the answer with the likeliest line, of others only if theirs is whole and not blank."""
    best = first
    for other in others:
        if other.output.confidence > best.output.confidence and at_line_end(other) and other.output.text.strip():
            best = other
    return best


def line_forks(sampler: Sampler, chosen: Sequence[Choice], stub: bytes, rule: Rule) -> Iterator[Fork]:
    """Yield the places where an answer with another first line departs from the tokens `chosen`, likeliest first."""
    output, line = Output(sampler, stub, rule), list[Choice]()
    for choice in chosen:
        if output.line_ended:
            break
        output.append(choice)
        line.append(choice)
    for fork in forks(sampler, line, stub):
        end = _line_end(sampler, fork.choice)
        if end is None or fork.at < len(line) - 1 or end != _line_end(sampler, line[-1]):
            yield fork


def _line_end(sampler: Sampler, choice: Choice) -> bytes | None:
    """Return the bytes that a token adds to the line that it ends, None if it ends none."""
    end, newline, _ = sampler.token_bytes[choice.token].partition(b"\n")
    return end.rstrip() if newline or choice.token in sampler.ends else None


def forks(sampler: Sampler, chosen: Sequence[Choice], stub: bytes, least: float = 0.0) -> Iterator[Fork]:
    """Yield the places where another answer departs from the tokens `chosen`, likeliest first.

    They were chosen after a prompt with this stub. Each is likelier than `least`. Tokens that merely spell the same
    text in other pieces are left out, and those that start like a likelier one at the same place.
    """
    spelled, starts, stubs = b"", list[int](), list[bytes]()
    probabilities, reached = list[npt.NDArray[np.float64]](), 1.0
    for choice in chosen:
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
        choice, probability = chosen[at], float(probabilities[at][index])
        token, chance = int(choice.likely[index]), float(choice.chances[index])
        spelling = sampler.token_bytes[token]
        rivals = [sampler.token_bytes[fork.choice.token] for fork in kept if fork.at == at]
        if (
            token not in sampler.ends
            and (not stubs[at] or sampler.spells(token, stubs[at]))
            and not spelled.startswith(spelling, starts[at])
            and not any(each.startswith(spelling) or spelling.startswith(each) for each in rivals)
        ):
            kept.append(Fork(at, choice._replace(token=token, chance=chance), probability))
            yield kept[-1]


def _likeliest_first(probabilities: Sequence[npt.NDArray[np.float64]], least: float) -> Iterator[tuple[int, int]]:
    """Yield the row and the column of all that exceed `least`."""
    joined = np.concatenate([*probabilities, _NONE])
    places = np.flatnonzero(joined > least)
    order = places[np.argsort(-joined[places], kind="stable")]
    starts = list(accumulate(map(len, probabilities), initial=0))
    for place in order.tolist():
        row = bisect_right(starts, place) - 1
        yield row, place - starts[row]
