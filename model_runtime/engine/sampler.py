"""Chooses the next token, the likeliest, and knows how likely it is and what else might have been chosen."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from model_runtime.engine.ngram_cache import NgramCache
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizer import Tokenizer

LEAST_CHANCE = 2.0**-12  # the least chance of a likely token
LEAST_TOTAL = float(np.finfo(np.float32).tiny)  # tokens that fit may all be too unlikely for fp32

Chances = npt.NDArray[np.float32]


class Choice(NamedTuple):
    """A token that was chosen, its chance, and all likely tokens [n] with theirs [n].

    Likely are chances of 2^-12 and more. They are of all tokens, whether or not they spell on with what was typed: so
    they stay when more is typed. Where the chosen one is not likely, they are not of the `whole` vocabulary but of
    the tokens that spell on.
    """

    token: int
    chance: float
    likely: Ids
    chances: Chances
    whole: bool = True


class Sampler:
    """Chooses greedily among the tokens that spell on with a stub (all, where it is spelled out). Pure."""

    def __init__(self, tokenizer: Tokenizer, ngram_cache: NgramCache | None, ends: Collection[int] = ()) -> None:
        """Mix the history's own counts into the model's distribution, where there is a local cache.

        `ends` may lie beyond the tokenizer's entries: a model can end texts with a token that has no name.
        """
        self.ngram_cache = ngram_cache
        self.token_bytes = tokenizer.token_bytes + [b""] * (max(ends, default=0) + 1 - tokenizer.vocab)
        self._vocabulary = tokenizer.vocabulary

    def pick(self, logits: torch.Tensor, history: Ids, stub: bytes) -> Choice:
        """The likeliest token after logits [vocab] and a history [n]."""
        fitting = self._vocabulary.fitting(stub) if stub else None
        scores = logits[: len(self.token_bytes)]  # a model's vocabulary may be padded
        if self.ngram_cache is None:
            return _on_device(scores, fitting)
        chances = self.ngram_cache.mix(torch.softmax(scores, dim=-1).cpu().numpy(), history)
        if fitting is None:
            return _among(chances, int(chances.argmax()))
        token = int(fitting[chances[fitting].argmax()])
        return (
            _among(chances, token) if chances[token] >= LEAST_CHANCE else _among_few(chances[fitting], token, fitting)
        )

    def probability(self, choice: Choice, stub: bytes) -> float:
        """The choice's share of the chances of all likely tokens that spell on with a stub."""
        return choice.chance / self.total(choice, stub)

    def total(self, choice: Choice, stub: bytes) -> float:
        """What shares are of: the chances of all likely tokens that spell on with a stub together, never nothing."""
        return max(sum(chance for _, chance in self.likely(choice, stub)), choice.chance, LEAST_TOTAL)

    def likely(self, choice: Choice, stub: bytes) -> list[tuple[int, float]]:
        """The likely tokens that might have been chosen for a stub, with their chances."""
        pairs = zip(choice.likely.tolist(), choice.chances.tolist(), strict=True)
        return [(token, chance) for token, chance in pairs if not stub or self.spells(token, stub)]

    def spells(self, token: int, stub: bytes) -> bool:
        """Whether a token may come next where a stub has still to be spelled."""
        spelled = self.token_bytes[token]
        return bool(spelled) and (spelled.startswith(stub) or stub.startswith(spelled))


def _on_device(logits: torch.Tensor, fitting: Ids | None) -> Choice:
    """Choose where the logits are: of a GPU's, only the winner and what is likely or fits are fetched."""
    chances = torch.softmax(logits, dim=-1)
    among = None if fitting is None else torch.as_tensor(fitting, device=logits.device)
    token = int(logits.argmax()) if among is None else int(among[logits[among].argmax()])
    if fitting is not None and among is not None and float(chances[token]) < LEAST_CHANCE:
        return _among_few(torch.softmax(logits[among], dim=-1).cpu().numpy(), token, fitting)
    likely = (chances >= LEAST_CHANCE).nonzero().squeeze(1)
    return Choice(token, float(chances[token]), likely.int().cpu().numpy(), chances[likely].cpu().numpy())


def _among(chances: Chances, token: int) -> Choice:
    likely = np.flatnonzero(chances >= LEAST_CHANCE)
    return Choice(token, float(chances[token]), likely.astype(np.int32), chances[likely])


def _among_few(chances: Chances, token: int, fitting: Ids) -> Choice:
    """A choice whose chances [n] are those of the few tokens [n] that fit."""
    shares = chances / max(float(chances.sum()), LEAST_TOTAL)
    likely = np.flatnonzero(shares >= LEAST_CHANCE)
    return Choice(token, float(shares[fitting == token][0]), fitting[likely], shares[likely], whole=False)
