"""Observes the probabilities that model and counts give held-out tokens, teacher-forced after server prompts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.gate.package_counts import PackageCounts
from model_runtime.checkpoint.weights import read_weights
from model_runtime.counts.snapshot import EMPTY, CountsView
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.linear import packed_format
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.local import EngineParts
from model_runtime.engine.ngrams import matches, recency
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.prompt import prompt
from model_runtime.prompt.template import Template

Floats = npt.NDArray[np.float64]

OBSERVER_OWNER = FrameId("")
LONGEST_TARGET_LINE = 200  # characters; longer lines are data that no one types
OTHERS = 4  # the most other files of the package that are open; all others are in its memory
LONGEST_MATCH = 16  # tokens; matches of 24 gain nothing more
PROBABILITY_FLOOR = 1e-30  # keeps logarithms finite
HALF_LIVES = (500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16000.0)  # tokens


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """A prompt and the rest of its cursor's line, as text and as the tokens of stub, rest and line end."""

    prompt: prompt.Prompt
    rest: str
    target: Ids


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The probabilities [n] of each token, or of all tokens that the stub allowed there.

    `uniform` gives all tokens the same probability. `counts` [half-lives, n, lengths] are the shares among the tokens
    that followed matches of at least 1, 2, ... tokens in the texts read directly, `repository` [n, lengths] those in
    the package's other files.
    """

    uniform: Floats
    model: Floats
    counts: Floats
    repository: Floats


@dataclass(frozen=True, slots=True)
class Observations:
    """The observed likelihoods of held-out tokens, and which matches count before each, by length in tokens.

    `longest` [n] is the longest match in the texts read directly: all shorter ones count. Of those in the memory the
    short ones may be too many to count: `counted` [n, lengths].
    """

    token: Likelihood
    allowed: Likelihood
    longest: npt.NDArray[np.int64]
    counted: npt.NDArray[np.bool_]
    characters: int


class Observer:
    """Draws places in documents and observes what a model predicts there."""

    def __init__(self, folder: Path) -> None:
        """Load the model in `folder`, without its n-grams."""
        _, config, self.tokenizer, self._template, _ = read_checkpoint(folder)
        self._decoder = Decoder(config, read_weights(folder, config), packed_format())
        self._context, self._pool = config.context, Pool[Arena](lambda: DenseArena(config, config.context), 1)
        decoding = DecodeContext.of(self._decoder, self.tokenizer, None)
        self.parts = EngineParts(decoding, self._pool, config.context)

    def places(
        self,
        documents: Sequence[CodeDocument],
        count: int,
        rng: random.Random,
        repository: Sequence[CodeDocument] | None = None,
    ) -> Iterator[TargetPlace]:
        """Yield up to `count` random cursors in the documents' lines, without those that exceed the context.

        `repository` holds all files of the documents' packages, by default the documents themselves.
        """
        written = [d for d in documents if _rows(d.text)]
        if not written:
            raise WorkError("no documents to fit the n-grams to: name a file written by `corpus`")
        known = documents if repository is None else repository
        memories = PackageCounts(self.tokenizer, known)
        for _ in range(count):
            document = rng.choice(written)
            opened = _beside(document, known, rng)
            place = self._place(document, opened, memories.beside(document, opened), rng)
            if len(place.prompt.ids) + len(place.target) <= self._context:
                yield place

    def _place(
        self, document: CodeDocument, opened: Sequence[CodeDocument], repository: CountsView, rng: random.Random
    ) -> TargetPlace:
        lines, row = document.text.split("\n"), rng.choice(_rows(document.text))
        line = lines[row]
        column = rng.randrange(len(line) - len(line.lstrip()), len(line))
        above, below = "".join(f"{each}\n" for each in lines[:row]), "\n".join(lines[row + 1 :])
        template = self._template.of([document.language])
        built = self._prompt(template, above, line[:column], below, tuple(other.text for other in opened))
        return TargetPlace(
            replace(built, counts=repository),
            line[column:],
            self.tokenizer.encode(built.stub.decode() + line[column:] + "\n"),
        )

    def _prompt(
        self, template: Template, above: str, typed: str, below: str, others: tuple[str, ...]
    ) -> prompt.Prompt:
        head = self._within(above, self._context // 2, backwards=True)
        tail = self._within(below, self._context // 6)
        around = prompt.Surroundings(above[: len(above) - len(head)], below[len(tail) :], others)
        return prompt.build(self.tokenizer, template, head, tail, typed, around)

    def _within(self, text: str, most: int, backwards: bool = False) -> str:
        """Return as many whole fragments from a text's start, or end, as have at most `most` tokens."""
        pieces = self.tokenizer.pieces(text)
        tokens = np.cumsum([count for _, count in (reversed(pieces) if backwards else pieces)])
        kept = int(np.searchsorted(tokens, most, side="right"))
        return "".join(piece for piece, _ in (pieces[len(pieces) - kept :] if backwards else pieces[:kept]))

    def observe(self, places: Iterable[TargetPlace]) -> Observations:
        """Observe every token of every place's target."""
        seen, characters = list[tuple[Likelihood, Likelihood, MatchCounts]](), 0
        for place in places:
            seen += self._tokens(place)
            characters += len(place.rest) + 1
        return Observations(
            _gathered([token for token, *_ in seen]),
            _gathered([allowed for _, allowed, *_ in seen]),
            np.array([counts.longest for *_, counts in seen]),
            np.array([counts.counted for *_, counts in seen]),
            characters,
        )

    def _tokens(self, place: TargetPlace) -> Iterator[tuple[Likelihood, Likelihood, MatchCounts]]:
        """Yield each token's likelihood, the sum over all tokens that the stub allows, and the matches before it."""
        history, start = np.concatenate((place.prompt.history, place.target)), len(place.prompt.history)
        stub, everything = place.prompt.stub, np.arange(self.tokenizer.vocab, dtype=np.int32)
        for n, probabilities in enumerate(self._distributions(place)):
            counts = MatchCounts(history[: start + n], place.prompt.counts)
            token, allowed = place.target[n : n + 1], self.tokenizer.vocabulary.fitting(stub) if stub else everything
            stub = stub[len(self.tokenizer.token_bytes[int(token[0])]) :]
            yield counts.likelihood(token, probabilities), counts.likelihood(allowed, probabilities), counts

    @torch.inference_mode()
    def _distributions(self, place: TargetPlace) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the model's probabilities [vocab] at each token of the target."""
        arena = self._pool.acquire(OBSERVER_OWNER, place.prompt.key)
        arena.truncate(0)
        new = place.prompt.ids
        for token in place.target:
            logits = self._decoder.forward(new, arena)[0]
            yield torch.softmax(logits[: self.tokenizer.vocab], dim=-1).numpy()
            new = np.array([token], dtype=np.int32)


class MatchCounts:
    """The tokens that followed earlier occurrences of a history's end, in the history and in a memory."""

    def __init__(self, history: Ids, repository: CountsView | None) -> None:
        """Find the matches and weight those in the history under each half-life."""
        places, self._lengths = matches(history, LONGEST_MATCH)
        self._followers = history[places + 1]
        self._weights = np.stack([recency(places, len(history), half_life) for half_life in HALF_LIVES])
        self.longest = int(self._lengths.max(initial=0))
        self._remembered = found = (repository or EMPTY.without(())).followers(history)
        lengths = np.arange(1, LONGEST_MATCH + 1)
        self.counted = (lengths >= found.least) & (lengths <= found.lengths.max(initial=0))

    def likelihood(self, tokens: Ids, probabilities: npt.NDArray[np.float32]) -> Likelihood:
        """Return the probability of any of these tokens."""
        hits, remembered = np.isin(self._followers, tokens), self._remembered
        in_repository = np.isin(remembered.tokens, tokens)
        return Likelihood(
            uniform=np.array([len(tokens) / len(probabilities)]),
            model=np.array([probabilities[tokens].sum(dtype=np.float64)]),
            counts=_shares(self._lengths, self._weights, hits)[:, None],
            repository=_shares(remembered.lengths, remembered.counts[None].astype(np.float64), in_repository),
        )


def _shares(lengths: npt.NDArray[np.integer], weights: Floats, hits: npt.NDArray[np.bool_]) -> Floats:
    """Return the share of the hits [rows, lengths] among the weights [rows, matches] of at least 1, 2, ... tokens."""
    found, whole = (_at_least(lengths, each) for each in (weights * hits, weights))
    return found / np.maximum(whole, PROBABILITY_FLOOR)


def _at_least(lengths: npt.NDArray[np.integer], weights: Floats) -> Floats:
    """Sum the weights [rows, matches] over matches of at least 1, 2, ... tokens."""
    sums = np.array([np.bincount(lengths, each, LONGEST_MATCH + 1) for each in weights], dtype=np.float64)
    return np.cumsum(sums[:, :0:-1], axis=1)[:, ::-1]


def _rows(text: str) -> list[int]:
    """Return the indices of lines that are neither blank nor too long to be typed."""
    return [row for row, line in enumerate(text.split("\n")) if line.strip() and len(line) <= LONGEST_TARGET_LINE]


def _beside(document: CodeDocument, documents: Sequence[CodeDocument], rng: random.Random) -> list[CodeDocument]:
    """Return up to OTHERS other files of a document's package, any number of them, files in the same folder last."""
    folder = document.path.rpartition("/")[0]
    others = [d for d in documents if d is not document and package_of(d) == package_of(document)]
    rng.shuffle(others)
    others.sort(key=lambda d: d.path.rpartition("/")[0] == folder)
    return others[len(others) - min(len(others), rng.randint(0, OTHERS)) :]


def _gathered(parts: Sequence[Likelihood]) -> Likelihood:
    return Likelihood(
        np.concatenate([part.uniform for part in parts]),
        np.concatenate([part.model for part in parts]),
        np.concatenate([part.counts for part in parts], axis=1),
        np.concatenate([part.repository for part in parts]),
    )
