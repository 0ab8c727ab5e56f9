"""The text of an answer as it is decoded: what its tokens spell, and how likely each beginning of it is."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import mul
from typing import NamedTuple

import numpy as np

from model_runtime.counts.lookup import NO_IDS
from model_runtime.counts.segment import MOST
from model_runtime.counts.snapshot import CountedPlace, CountsView
from model_runtime.engine.sampler import Choice, Sampler, Shares
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.prompt.spelling import WORD_BYTES

MOST_COMPARED = 64  # places of one token that are looked at to name those that weighed most


class OutputToken(NamedTuple):
    """One chosen token: the stub that it had to spell, its share of the chances of all tokens that fit that stub.

    The bytes that it adds to the text end at `end`; a token that only spells the stub, or that ends the
    text, adds none.
    """

    choice: Choice
    stub: bytes
    share: float
    end: int


class Output:
    """The text after a prompt, token by token.

    `spelled` are its bytes, and `stub` has still to be spelled. `complete` is true once an end token or the rule has
    ended the text. `confidence` is the joint probability of all tokens of the first line that is not blank, including
    its end once that is there; `line_ended` is true from then on.
    """

    def __init__(self, sampler: Sampler, stub: bytes, rule: Rule, history: Ids = NO_IDS) -> None:
        """Start empty after a history."""
        self._history = history[-MOST:].copy()  # the rest of the history is large
        self.stub, self.complete, self.line_ended, self.confidence = stub, False, False, 1.0
        self._sampler, self._rule = sampler, rule
        self.spelled, self._steps = b"", list[OutputToken]()

    def append(self, choice: Choice) -> None:
        """Append a token."""
        share, stub = self._sampler.probability(choice, self.stub), self.stub
        if not self.line_ended:
            self.confidence *= share
        self.complete = choice.token in self._sampler.ends
        if not self.complete:
            piece = self._sampler.token_bytes[choice.token]
            self.stub, piece = self.stub[len(piece) :], piece[len(self.stub) :]
            self.spelled += piece
            text = decoded(self.spelled)
            self.complete = self._rule.cut(text) is not None
            self.line_ended = self.line_ended or "\n" in text.lstrip()
        self.line_ended = self.line_ended or self.complete
        self._steps.append(OutputToken(choice, stub, share, len(self.spelled)))

    @property
    def likelihood(self) -> TextProbability:
        """The text with the chances of its tokens."""
        text, offsets = decoded(self.spelled), byte_offsets(self.spelled)
        whole = TextProbability(self._sampler, self.spelled, tuple(self._steps), text, offsets, self._history)
        return whole.along(self.text)

    @property
    def text(self) -> str:
        """The text up to where the rule ends it; without an end, the whole lines of a text of several."""
        text = decoded(self.spelled)
        return text[: self._rule.cut(text)] if self.complete or "\n" not in text else text.rpartition("\n")[0]


class WordEnd(NamedTuple):
    """A place where a word or a sign ends, in characters of a text, and the probability that all before it is right.

    Before a place that ends a word, that includes that the word ends there.
    """

    at: int
    probability: float


class TextProbability:
    """A text with the chances of its tokens. Immutable."""

    def __init__(
        self,
        sampler: Sampler,
        spelled: bytes,
        steps: Sequence[OutputToken],
        text: str,
        offsets: Sequence[int],
        history: Ids = NO_IDS,
    ) -> None:
        """Take the steps, the bytes that they spell, and a text made of these.

        `offsets` [characters + 1] are the bytes before each of the text's characters, and before its end. `history`
        are the last tokens before the steps, as many as the counts can match.
        """
        self.text, self._history = text, history
        self._sampler, self._spelled, self._steps, self._offsets = sampler, spelled, steps, offsets
        self._ends = [step.end for step in steps]
        self._starts = [0, *self._ends]
        self._known: tuple[int, list[WordEnd]] | None = None  # the last answer of `word_ends`: a key asks three times

    def along(self, text: str) -> TextProbability:
        """Return the likelihood of a text that is made from this one by leaving out parts and changing blanks."""
        kept = range(len(text) + 1) if self.text.startswith(text) else _kept(text, self.text)
        offsets = [self._offsets[place] for place in kept]
        return TextProbability(self._sampler, self._spelled, self._steps, text, offsets, self._history)

    def word_ends(self, start: int = 0) -> list[WordEnd]:
        """Return where words and signs end after `start`, each with its probability given the text before `start`."""
        if self._known is None or self._known[0] != start:
            self._known = start, self._find_word_ends(start)
        return self._known[1].copy()

    def _find_word_ends(self, start: int) -> list[WordEnd]:
        found, text = list[WordEnd](), self.text
        in_word = [each.encode("utf-8", "surrogatepass")[:1] in WORD_BYTES for each in text] + [False]
        index, joint = self._reach(self._offsets[start])
        for at in range(start + 1, len(text) + 1):
            if text[at - 1].isspace() or (in_word[at - 1] and in_word[at]):
                continue
            offset = self._offsets[at]
            while index < len(self._steps) and self._starts[index] < offset >= self._ends[index]:
                joint *= self._steps[index].share
                index += 1
            found.append(WordEnd(at, joint * self._stop(index, offset)))
        return found

    def begins(self, start: int, text: str) -> float:
        """Return the probability that another text, not empty, comes from `start` on, over the known tokens.

        Where a token departs from the chosen token, the rest is unknown: all of it is taken to fit.
        """
        offset, found = self._offsets[start], 0.0
        index, reached = self._reach(offset)
        before = self._spelled_before(index, offset) if index < len(self._steps) else b""
        wanted = (before or (self._steps[0].stub if self._steps and not offset else b"")) + text.encode()
        for step in self._steps[index:]:
            spelled, chosen = self._sampler.token_bytes, step.choice.token
            total = step.choice.chance / step.share if step.share else 1.0
            likely = self._sampler.likely(step.choice, step.stub)
            fitting = [chance for token, chance in likely if token != chosen and _fit(spelled[token], wanted)]
            found += reached * sum(fitting) / total
            if not _fit(spelled[chosen], wanted):
                return min(1.0, found)
            reached *= step.share
            wanted = wanted[len(spelled[chosen]) :]
            if not wanted:
                return min(1.0, found + reached)
        return min(1.0, found)

    def tokens(self, start: int) -> list[tuple[str, float]]:
        """Return the decoded text from the text's character `start` on, left out of the answer or not, by token.

        Each comes with its share of the chances. A token that ends the text has no text; tokens of the stub are left
        out.
        """
        begin, decode = self._offsets[start], codecs.getincrementaldecoder("utf-8")("replace").decode
        found = list[tuple[str, float]]()
        for index, step in enumerate(self._steps):
            if step.end > begin:
                found.append((decode(self._spelled[max(begin, self._starts[index]) : step.end]), step.share))
        return found

    def shares(self, start: int, end: int) -> Shares:
        """Return where the chances of the text's characters from `start` to `end` come from, averaged over bytes."""
        between = dict(self._between(start, end))
        if not between:
            return Shares()
        columns = zip(*[self._steps[index].choice.shares for index in between], strict=True)
        return Shares(*[sum(map(mul, between.values(), column)) / sum(between.values()) for column in columns])

    def places(self, counts: CountsView, start: int, end: int, most: int) -> list[CountedPlace]:
        """Return the counted places that weighed most in the characters from `start` to `end`, at most `most`.

        `counts` is the view that the text was chosen with. A place that says several tokens in a row is named once,
        by the first of them and its longest match.
        """
        tokens = np.array([step.choice.token for step in self._steps], dtype=np.int32)
        weights, named = dict[tuple[str, int], float](), dict[tuple[str, int], CountedPlace]()
        for index, size in self._between(start, end):
            history = np.concatenate((self._history, tokens[:index]))
            share = self._steps[index].choice.shares.counts
            for place in counts.places(history, int(tokens[index]), MOST_COMPARED) if share else ():
                aligned = place.path, place.offset - index
                weights[aligned] = weights.get(aligned, 0.0) + size * share * place.length
                first = named.setdefault(aligned, place)
                named[aligned] = first._replace(length=max(first.length, place.length))
        best = sorted(weights, key=lambda aligned: (-weights[aligned], aligned))
        return [named[aligned] for aligned in best[:most]]

    def _between(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the steps that add to the text between two characters, each with the number of its bytes there."""
        first, last = self._offsets[start], self._offsets[end]
        for index in range(bisect_right(self._ends, first), len(self._steps)):
            if (size := min(last, self._ends[index]) - max(first, self._starts[index])) <= 0:
                return
            yield index, size

    def _reach(self, offset: int) -> tuple[int, float]:
        """Return the step at an offset, and by what to multiply its share if it has been spelled in part."""
        index = bisect_right(self._ends, offset) if offset else 0
        start = self._spelled_before(index, offset) if index < len(self._steps) else b""
        if not start:
            return index, 1.0
        fitting = [  # as `_fit` says, without a call for each of the likely tokens
            chance
            for spelled, chance in self._likely(index)
            if spelled.startswith(start) or (spelled and start.startswith(spelled))
        ]
        fits = self._mass(index, fitting)
        return index, 1.0 / fits if fits else 0.0

    def _stop(self, index: int, offset: int) -> float:
        """Return the probability that the text goes on to an offset in a step and that no word goes on there."""
        in_word = self._spelled[offset - 1 : offset] in WORD_BYTES
        if index == len(self._steps):
            return float(not in_word)  # a limit ended the text: the word may go on
        if in_word and self._spelled[offset : offset + 1] in WORD_BYTES:
            return 1.0  # the text was cut there on purpose
        if offset <= self._starts[index] or not (start := self._spelled_before(index, offset)):
            return self._sampler.share_without_word(self._steps[index].choice) if in_word else 1.0
        size, goes_on = len(start), [each for each in self._likely(index) if each[0].startswith(start)]
        if in_word:
            goes_on = [each for each in goes_on if each[0][size : size + 1] not in WORD_BYTES]
        return self._mass(index, [chance for _, chance in goes_on])

    def _spelled_before(self, index: int, offset: int) -> bytes:
        """Return what a step's token spells of its stub and of the text before an offset; nothing at its start."""
        step = self._steps[index]
        spelled = self._sampler.token_bytes[step.choice.token]
        return spelled[: len(spelled) - (step.end - offset)] if offset > self._starts[index] else b""

    def _likely(self, index: int) -> list[tuple[bytes, float]]:
        """Return what the tokens spell that fit a step's stub, with their chances."""
        step, spelled = self._steps[index], self._sampler.token_bytes
        return [(spelled[token], chance) for token, chance in self._sampler.likely(step.choice, step.stub)]

    def _mass(self, index: int, chances: Sequence[float]) -> float:
        """Return the share of some chances among all tokens that fit a step's stub; at least the chosen one's."""
        step = self._steps[index]
        total = step.choice.chance / step.share if step.share else 1.0
        return max(sum(chances) / total, step.share)


def word_pieces(text: str, start: int, ends: Sequence[WordEnd]) -> tuple[tuple[str, float], ...]:
    """Return the pieces of a text from a character on, each with its probability once those before it are right."""
    found, place, reached = list[tuple[str, float]](), start, 1.0
    for end in ends:
        found.append((text[place : end.at], end.probability / reached if reached else 0.0))
        place, reached = end.at, end.probability
    return tuple(found)


def decoded(spelled: bytes) -> str:
    r"""Return the text that bytes spell, without an unfinished character at its end; lines end in \n."""
    return spelled.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")


def byte_offsets(spelled: bytes) -> list[int]:
    r"""Return the bytes before each character of a decoded text, and before its end; a line end is one character."""
    if spelled.isascii() and b"\r" not in spelled:
        return list(range(len(spelled) + 1))
    decoder, offsets, last = codecs.getincrementaldecoder("utf-8")("ignore"), [0], ""
    for at in range(len(spelled)):
        for character in decoder.decode(spelled[at : at + 1]):
            if (last, character) == ("\r", "\n"):
                offsets.pop()
            offsets.append(at + 1)
            last = character
    return offsets


def _kept(text: str, whole: str) -> list[int]:
    """Return the place in the whole of each character of a text made from it, and of the text's end."""
    places, place = [0], 0
    for character in text:
        if whole[place : place + 1] == character:
            place += 1
        elif character == "\n" or not character.isspace():
            place = whole.find(character, place) + 1 or place
        places.append(place)
    return places


def _fit(spelled: bytes, wanted: bytes) -> bool:
    return spelled.startswith(wanted) or (bool(spelled) and wanted.startswith(spelled))
