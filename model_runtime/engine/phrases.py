"""Continues a text with its own phrases: next-token counts alone, without a model and without keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from model_runtime.cancel import Cancel
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import decoded
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.prompt.spelling import WORD_BYTES
from model_runtime.prompt.tokenizer import Tokenizer

# Fitted without a model to eight packages in TypeScript, Go and Rust; docs/benchmarks/languages.md says how they do
# on others.
PHRASE_COUNTS = Ngrams(
    shares=(0.48, 0.31, 0.33, 0.16, 0.16, 0.12, 0.41, 0.3),
    half_life=8000.0,
    memory_shares=(0.0, 0.0, 0.3, 0.15, 0.2, 0.2, 0.2, 0.15, *(0.1,) * 7, 0.3),
)
UNSEEN_SHARE = 0.38  # share of the whole vocabulary where nothing matches; the rest is the text's own tokens'

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Phrase:
    """A continuation, the joint probability of all of it, and how many tokens were chosen for it."""

    text: str
    confidence: float
    new_tokens: int


class Phrases:
    """Chooses the likeliest next tokens by counts over the user's own texts. Pure: remembers nothing.

    `counts` is all that it knows: whatever mixes counts into a distribution can speak through it.
    """

    def __init__(self, tokenizer: Tokenizer, counts: Ngrams = PHRASE_COUNTS) -> None:
        """Speak in the tokens of a tokenizer."""
        self._token_bytes, self._vocabulary, self._counts = tokenizer.token_bytes, tokenizer.vocabulary, counts
        self._words = _Words(tokenizer)

    def generate(
        self,
        history: Ids,
        stub: bytes,
        rule: Rule,
        limit: int,
        least: float,
        cancel: Cancel,
        counts: CountsView | None = None,
    ) -> Phrase:
        """Return the longest continuation in whole words that is as likely as `least`, which is above 0.

        Each word, including the unfinished word, stands in the texts, or each of its parts such as `app` and
        `Version` does: none is made of the halves of two.

        `history` [n], `stub` and `counts` are a prompt's. The text is empty if not even a word is likely enough; its
        confidence is then the chance of the first token that was too unlikely. Raises Cancelled soon after `cancel()`
        is true.
        """
        row = np.concatenate((history, np.zeros(limit, dtype=np.int32)))
        phrase, spelled, joint = Phrase("", 0.0, 0), b"", 1.0
        base = self._base(history)
        for count in range(limit):
            cancel.check()
            chances = self._counts.mix(base, row[: len(history) + count], counts)
            in_word, ends = spelled[-1:] in WORD_BYTES, 1.0
            if in_word:
                ends = float(chances[~self._vocabulary.begins_word].sum())
            stands = not in_word or self._words.stand(row[: len(history) + count], history, counts)
            if spelled and stands and joint * ends >= least:
                phrase = Phrase(decoded(spelled), joint * ends, count)
            token, chance = self._likeliest(chances, stub)
            joint *= chance
            if joint < least or not (stands or self._words.joins(int(row[len(history) + count - 1]), token)):
                return phrase if phrase.text else Phrase("", joint, count)
            row[len(history) + count] = token
            piece = self._token_bytes[token]
            stub, piece = stub[len(piece) :], piece[len(stub) :]
            spelled += piece
            if (end := rule.cut(decoded(spelled))) is not None:
                return Phrase(decoded(spelled)[:end], joint, count + 1)
        return phrase

    def _base(self, history: Ids) -> Probabilities:
        """Return the probability [vocab] of each token where nothing matches: as often as in the history [n]."""
        vocab = len(self._token_bytes)
        seen = np.bincount(history[history >= 0], minlength=vocab).astype(np.float32)
        base = np.full(vocab, UNSEEN_SHARE / vocab, dtype=np.float32)
        base += seen * np.float32((1 - UNSEEN_SHARE) / max(1.0, float(seen.sum())))
        return base

    def _likeliest(self, chances: Probabilities, stub: bytes) -> tuple[int, float]:
        """Return the likeliest token that fits the stub, and its share among those that fit."""
        fitting = self._vocabulary.fitting(stub) if stub else np.arange(len(chances), dtype=np.int32)
        among = chances[fitting]
        best = int(among.argmax())
        return int(fitting[best]), float(among[best] / among.sum())


class _Words:
    """Tells whether the user's texts have a word that was put together from tokens.

    Names have parts, `app` and `Version` in `appVersion`: each is a word here.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        spelled = tokenizer.token_bytes
        self._token_bytes, self._begins = spelled, tokenizer.vocabulary.begins_word
        self._ends = np.array([each[-1:] in WORD_BYTES for each in spelled], dtype=np.bool_)

    def stand(self, row: Ids, history: Ids, counts: CountsView | None) -> bool:
        """Return whether the word at the end of a row of tokens stands in a history or in counted documents."""
        word = self._last(row)
        return self._in_history(word, history) or (
            counts is not None and any(self._is_whole(word, *each) for each in counts.neighbours(word))
        )

    def joins(self, token: int, following: int) -> bool:
        """Return whether a token ends in a word that the following one goes on with; a break does not."""
        if token < 0 or following < 0 or not (self._ends[token] and self._begins[following]):
            return False
        last, first = self._token_bytes[token][-1:], self._token_bytes[following][:1]
        return not (b"_" in (last, first) or (first.isupper() and not last.isupper()))

    def _last(self, row: Ids) -> Ids:
        """Return the tokens of the word at the end of a row, the first of which may spell more than it."""
        start = len(row) - 1
        while start > 0 and self.joins(int(row[start - 1]), int(row[start])):
            start -= 1
        return row[start:]

    def _in_history(self, word: Ids, history: Ids) -> bool:
        padded = np.concatenate(([-1], history, [-1]))
        places = np.flatnonzero(padded[: 1 - len(word) or None] == word[0])
        for back, token in enumerate(word.tolist()):
            places = places[padded[places + back] == token]
        around = zip(padded[places - 1].tolist(), padded[places + len(word)].tolist(), strict=True)
        return any(self._is_whole(word, *each) for each in around)

    def _is_whole(self, word: Ids, before: int, after: int) -> bool:
        """Return whether tokens between two others spell no part of a longer word."""
        return not (self.joins(before, int(word[0])) or self.joins(int(word[-1]), after))
