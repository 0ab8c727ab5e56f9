"""Chooses the likeliest next token, with its probability and what else might have been chosen, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from model_runtime.counts.snapshot import CountsView
from model_runtime.decoder.any_decoder import TopTokens
from model_runtime.engine.native.mixer import NativeMixer
from model_runtime.engine.ngrams import Chances, Mixture, Ngrams
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.logits import Logits
from model_runtime.prompt.tokenizer import Tokenizer

if TYPE_CHECKING:
    import torch

LEAST_CHANCE = 2.0**-12  # chance from which a token is likely
Spells = Callable[[int, bytes], bool]  # whether a token may come next while a stub has still to be spelled
Scores = npt.NDArray[np.float32]  # the model's logits [vocab]
LEAST_TOTAL = float(np.finfo(np.float32).tiny)  # tokens that fit may all be too unlikely for fp32


class Shares(NamedTuple):
    """How much of a chance comes from the model, from texts read directly, and from the repository: sum 1."""

    model: float = 1.0
    file: float = 0.0
    counts: float = 0.0


class ChoiceOrigin(NamedTuple):
    """Where the chances of a choice's likely tokens [n] come from.

    `chances` [n] are those in the mixture, and `model` [n] is the model's part of them. The repository adds `gains`
    [m] to the chances of `tokens` [m].
    """

    chances: Chances
    model: Chances
    tokens: Ids
    gains: Chances


class Choice(NamedTuple):
    """A chosen token, its chance, and all likely tokens [n] with theirs [n].

    Tokens with a chance of at least 2^-12 are likely, whether or not they fit the stub: so the list stays valid when
    more is typed. If the chosen token itself is less likely than that, chances are not among the `whole` vocabulary
    but among the tokens that fit the stub. Without an `origin` all comes from the model.
    """

    token: int
    chance: float
    likely: Ids
    chances: Chances
    whole: bool = True
    origin: ChoiceOrigin | None = None

    @property
    def shares(self) -> Shares:
        """Where the token's chance comes from."""
        at = np.flatnonzero(self.likely == self.token)
        if self.origin is None or not len(at):
            return Shares()
        chance = max(float(self.origin.chances[at[0]]), LEAST_TOTAL)
        model = min(1.0, float(self.origin.model[at[0]]) / chance)
        counts = float(self.origin.gains[self.origin.tokens == self.token].sum()) / chance
        counts = min(1.0 - model, counts)
        return Shares(model, 1.0 - model - counts, counts)


class SeenCounts(NamedTuple):
    """The mixture with the model's chances: n-grams, and counts of a version.

    The counts themselves would stay in RAM with an arena.
    """

    cache: Ngrams | None = None
    version: int | None = None

    @classmethod
    def by(cls, cache: Ngrams | None, counts: CountsView | None) -> SeenCounts:
        """Return what a choice sees that is made with a cache and with counts."""
        return cls(cache, counts and counts.version)


class Choices:
    """The tokens chosen one after another after a prompt, each with the stub that it had to spell.

    A choice is a function of the tokens before it, the history that the n-grams read, the `seen` inputs,
    and the stub. It also holds for a longer stub that it spells: the best of all tokens that fit the shorter
    stub is the best of those that fit the longer one. Only chances that were computed among the tokens of the shorter
    stub do not carry over. `fork` are the choices after another line that was preferred to these.
    """

    def __init__(self, ids: Ids, history: Ids, seen: SeenCounts) -> None:
        """Start without choices after the prompt `ids`; the n-grams read `history`."""
        self._ids, self._history, self._seen = ids, history, seen
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

    def apply_to(self, ids: Ids, history: Ids, seen: SeenCounts) -> bool:
        """Return whether the choices hold after a prompt: the same one, or that prompt continued with the choices."""
        chosen = len(ids) - len(self._ids)
        if not 0 <= chosen <= len(self._made) or seen != self._seen:
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


def recall_choices(arena: Arena, ids: Ids, history: Ids, seen: SeenCounts) -> Choices:
    """Return the choices that an arena remembers after a row `ids`; without any, it remembers those to come."""
    answers = arena.answers if isinstance(arena.answers, Choices) else None
    for made in (answers, answers.fork if answers else None):
        if made and made.apply_to(ids, history, seen):
            arena.answers = made
            return made
    arena.answers = choices = Choices(ids, history, seen)
    return choices


def _goes_on(row: Ids, start: Ids, tokens: Ids) -> bool:
    return np.array_equal(row[: len(start)], start) and np.array_equal(row[len(start) :], tokens)


class Sampler:
    """Chooses greedily among the tokens that fit a stub (all tokens once it is spelled). Pure."""

    def __init__(self, tokenizer: Tokenizer, ngrams: Ngrams | None, ends: Collection[int] = ()) -> None:
        """Mix the history's own counts into the model's distribution if there are n-grams.

        `ends` are the tokens that end a text. They may lie beyond the tokenizer's entries: a model can end texts with
        a token that has no name.
        """
        self._tokenizer, self.ngrams, self.ends = tokenizer, ngrams, ends
        self.token_bytes = tokenizer.token_bytes + [b""] * (max(ends, default=0) + 1 - tokenizer.vocab)
        self._vocabulary = tokenizer.vocabulary
        unnamed = np.zeros(len(self.token_bytes) - tokenizer.vocab, dtype=np.bool_)
        self._begins_word = np.concatenate([tokenizer.vocabulary.begins_word, unnamed])

    def with_ngrams(self, ngrams: Ngrams | None) -> Sampler:
        """Return a sampler that mixes in another cache, or none."""
        return Sampler(self._tokenizer, ngrams, self.ends)

    def pick(
        self,
        logits: Logits,
        history: Ids,
        stub: bytes,
        top: TopTokens | None = None,
        counts: CountsView | None = None,
    ) -> Choice:
        """Choose the likeliest token that fits the stub, given logits [vocab], a history [n] and perhaps counts.

        If `top` is given, the logits are searched only where its tokens do not settle the choice. An n-gram
        cache gives chances to any token, so all of the model's are fetched to mix them in.
        """
        if self.ngrams is None and top and (choice := self._settled(top, stub)):
            return choice
        fitting = self._vocabulary.fitting(stub) if stub else None
        if self.ngrams is None and not isinstance(logits, np.ndarray):
            return _on_device(cast("torch.Tensor", logits)[: len(self.token_bytes)], fitting)
        held = logits if isinstance(logits, np.ndarray) else logits.cpu().numpy()
        scores = held[: len(self.token_bytes)]  # a model's vocabulary may be padded
        if self.ngrams is None:
            return _by_model(scores, fitting)
        mixer = self.ngrams.mixer if len(scores) == len(self.token_bytes) else None
        if mixer and (choice := self._pick_compiled(mixer, scores, history, fitting, counts)):
            return choice
        probabilities = _softmax(scores)
        mixture = self.ngrams.mixture(probabilities, history, counts)
        chances = mixture.chances
        token = int(chances.argmax()) if fitting is None else int(fitting[chances[fitting].argmax()])
        if fitting is None or chances[token] >= LEAST_CHANCE:
            choice = _among(chances, token)
        else:
            choice = _among_few(chances[fitting], token, fitting)
        return choice if chances is probabilities else _with_origin(choice, mixture, probabilities)

    def _pick_compiled(
        self, mixer: NativeMixer, scores: Scores, history: Ids, fitting: Ids | None, counts: CountsView | None
    ) -> Choice | None:
        """Choose by the compiled part; None where no token that fits is likely."""
        scores = np.ascontiguousarray(scores)
        token, chance, likely, chances, model, tokens, gains, is_mixed = mixer.pick(
            scores.ctypes.data, len(scores), history, counts, fitting
        )
        if fitting is not None and chance < LEAST_CHANCE:
            return None
        origin = ChoiceOrigin(chances, model, tokens, gains) if is_mixed else None
        return Choice(token, chance, likely, chances, origin=origin)

    def _settled(self, top: TopTokens, stub: bytes) -> Choice | None:
        """Return what the likeliest tokens settle: a likely one fits, and none that is not among them is likely."""
        ids, logits, total, choices = top
        chances = np.exp(logits - np.float32(total))
        whole = len(ids) == choices  # the list is the vocabulary
        if choices != len(self.token_bytes) or not (whole or chances[-1] < LEAST_CHANCE):
            return None
        fits = (i for i, token in enumerate(ids.tolist()) if not stub or self.spells(token, stub))
        at, second = next(fits, None), next(fits, None)
        if at is None or chances[at] < LEAST_CHANCE:
            return None
        if stub and second is not None and logits[second] == logits[at]:  # of equals that fit, the order is another
            return None
        likely = np.flatnonzero(chances >= LEAST_CHANCE)
        likely = likely[np.argsort(ids[likely])]
        return Choice(int(ids[at]), float(chances[at]), ids[likely], chances[likely])

    def probability(self, choice: Choice, stub: bytes) -> float:
        """Return the choice's share of the chances of all likely tokens that fit a stub."""
        return choice.chance / self.total(choice, stub)

    def total(self, choice: Choice, stub: bytes) -> float:
        """Return the sum of the chances of all likely tokens that fit a stub; never 0."""
        chances = choice.chances[self._fits(choice.likely, stub)] if stub else choice.chances
        return max(sum(chances.tolist()), choice.chance, LEAST_TOTAL)  # they are few: numpy takes longer

    def share_without_word(self, choice: Choice) -> float:
        """Return the share of the likely tokens that do not go on with a word, where no stub has to be spelled."""
        chances = choice.chances[~self._begins_word[choice.likely]]
        return min(1.0, float(chances.sum()) / self.total(choice, b""))

    def likely(self, choice: Choice, stub: bytes) -> list[tuple[int, float]]:
        """Return the likely tokens that fit a stub, with their chances."""
        fits = self._fits(choice.likely, stub) if stub else slice(None)
        return list(zip(choice.likely[fits].tolist(), choice.chances[fits].tolist(), strict=True))

    def _fits(self, tokens: Ids, stub: bytes) -> npt.NDArray[np.bool_]:
        """Return whether each token [n] may come next while a stub has still to be spelled."""
        fits = np.zeros(len(self.token_bytes), dtype=np.bool_)
        fits[self._vocabulary.fitting(stub)] = True
        return fits[tokens]

    def spells(self, token: int, stub: bytes) -> bool:
        """Return whether a token may come next while a stub has still to be spelled."""
        spelled = self.token_bytes[token]
        return bool(spelled) and (spelled.startswith(stub) or stub.startswith(spelled))


def _on_device(logits: torch.Tensor, fitting: Ids | None) -> Choice:
    """Choose on the logits' device: from a GPU only the winner and the likely or fitting tokens are fetched."""
    import torch

    chances = torch.softmax(logits, dim=-1)
    among = None if fitting is None else torch.as_tensor(fitting, device=logits.device)
    token = int(logits.argmax()) if among is None else int(among[logits[among].argmax()])
    if fitting is not None and among is not None and float(chances[token]) < LEAST_CHANCE:
        return _among_few(torch.softmax(logits[among], dim=-1).cpu().numpy(), token, fitting)
    likely = (chances >= LEAST_CHANCE).nonzero().squeeze(1)
    return Choice(token, float(chances[token]), likely.int().cpu().numpy(), chances[likely].cpu().numpy())


def _by_model(scores: Scores, fitting: Ids | None) -> Choice:
    """Choose by the model alone."""
    chances = _softmax(scores)
    token = int(scores.argmax()) if fitting is None else int(fitting[scores[fitting].argmax()])
    if fitting is not None and chances[token] < LEAST_CHANCE:
        return _among_few(_softmax(scores[fitting]), token, fitting)
    return _among(chances, token)


def _softmax(scores: Scores) -> Chances:
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def _among(chances: Chances, token: int) -> Choice:
    likely = np.flatnonzero(chances >= LEAST_CHANCE)
    return Choice(token, float(chances[token]), likely.astype(np.int32), chances[likely])


def _with_origin(choice: Choice, mixture: Mixture, probabilities: Chances) -> Choice:
    """Return a choice that also knows where the chances of its likely tokens come from."""
    token, chance, likely, chances, whole, _ = choice
    model = probabilities[likely] * np.float32(mixture.model)
    mixed = chances if whole else mixture.chances[likely]
    return Choice(token, chance, likely, chances, whole, ChoiceOrigin(mixed, model, mixture.tokens, mixture.gains))


def _among_few(chances: Chances, token: int, fitting: Ids) -> Choice:
    """Return a choice whose chances [n] are among the few tokens [n] that fit."""
    shares = chances / max(float(chances.sum()), LEAST_TOTAL)
    likely = np.flatnonzero(shares >= LEAST_CHANCE)
    return Choice(token, float(shares[fitting == token][0]), fitting[likely], shares[likely], whole=False)
