"""Held-out text, and what models make of it alone and mixed with counts of the text before, as the server mixes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from efim_lab.gate import documents
from efim_lab.gate.documents import package_of
from efim_lab.gate.evaluation.figures.intervals import Estimate, ratio
from efim_lab.gate.network import EfimForCausalLM
from model_runtime.prompt.tokenizer import Tokenizer

Floats = npt.NDArray[np.float64]

WINDOW, WINDOWS = 512, 5  # tokens of a window, and windows of a document from its start
OF_PACKAGE = 34  # documents: one package has most of them
SHORTEST = 64  # tokens of a window
LONGEST_MATCH, HALF_LIFE = 8, 4000.0  # tokens
LEAST = 1e-9  # a probability
GRID, SWEEPS = np.linspace(0, 0.9, 19), 2  # shares that are tried, and how often each is fitted


class HeldOut:
    """Windows of documents [windows, WINDOW], padded with -1, and after each of their tokens what counts know.

    `matched` [windows, WINDOW, LONGEST_MATCH] says whether the last 1, 2, .. tokens stood in the document before, and
    `shares` how much of what followed these was the token that follows.
    """

    def __init__(self, file: Path, tokenizer: Path) -> None:
        encode, texts = Tokenizer(tokenizer / "tokenizer.json"), _balanced(file)
        rows: list[list[int]] = []
        owners: list[int] = []
        known: list[tuple[npt.NDArray[np.bool_], Floats]] = []
        for number, text in enumerate(texts):
            ids = encode.encode(text)[: WINDOWS * WINDOW].tolist()
            matched, shares = _counts(ids)
            for at in range(0, len(ids) - SHORTEST, WINDOW):
                piece = ids[at : at + WINDOW]
                pad = WINDOW - len(piece)
                rows.append([*piece, *[-1] * pad])
                owners.append(number)
                known.append(tuple(np.pad(each[at : at + WINDOW], ((0, pad), (0, 0))) for each in (matched, shares)))  # pyright: ignore
        self._rows = torch.tensor(rows)
        self._valid = self._rows[:, 1:].numpy() >= 0
        self._owners = np.repeat(owners, WINDOW - 1).reshape(self._valid.shape)[self._valid]
        self._matched, self._shares = (np.stack(each)[:, 1:][self._valid] for each in zip(*known, strict=True))

    @torch.inference_mode()
    def losses(self, model: EfimForCausalLM) -> Floats:
        """Return the loss in nats of each token but the first of its window."""
        found: list[torch.Tensor] = []
        with torch.autocast("cpu", torch.bfloat16):
            for rows in self._rows.split(4):
                logits = model(rows.clamp(min=0)).logits[:, :-1].float().log_softmax(-1)
                found.append(-logits.gather(-1, rows[:, 1:, None].clamp(min=0))[..., 0])
        return torch.cat(found).numpy()[self._valid].astype(np.float64)

    def with_counts(self, losses: Floats) -> Floats:
        """Return the losses once counts are mixed in, with shares fitted on the other half of the documents."""
        mixed = np.empty_like(losses)
        for half in (0, 1):
            judged = self._owners % 2 == half
            shares = self._fitted(np.exp(-losses), ~judged)
            mixed[judged] = -np.log(self._chain(np.exp(-losses), shares)[judged] + LEAST)
        return mixed

    def difference(self, losses: Floats, others: Floats) -> Estimate:
        """Return by how much losses are higher than others, paired over documents."""
        sums = np.bincount(self._owners, losses - others)
        return ratio(sums.tolist(), np.bincount(self._owners).tolist())

    def _fitted(self, model: Floats, where: npt.NDArray[np.bool_]) -> Floats:
        """Return the likeliest shares of counts, the shortest matches first; a mixture is linear in each."""
        shares = np.full(LONGEST_MATCH, 0.1)
        for _ in range(SWEEPS):
            for length in range(LONGEST_MATCH):
                rows = where & self._matched[:, length]
                ends: list[Floats] = []
                for share in (0.0, 1.0):
                    shares[length] = share
                    ends.append(self._chain(model, shares)[rows])
                none, all_ = ends
                shares[length] = max(GRID, key=lambda g: np.log((1 - g) * none + g * all_ + LEAST).sum())
        return shares

    def _chain(self, model: Floats, shares: Floats) -> Floats:
        mixed = model
        for length, share in enumerate(shares):
            taken = np.where(self._matched[:, length], share, 0.0)
            mixed = (1 - taken) * mixed + taken * self._shares[:, length]
        return mixed


def _balanced(path: Path) -> list[str]:
    """Return texts of more than 2,000 characters, at most OF_PACKAGE of each package."""
    by_package: dict[str, list[str]] = defaultdict(list)
    for document in sorted(documents.read_documents(path), key=lambda each: each.path):
        if len(document.text) > 2000:
            by_package[package_of(document)].append(document.text)
    return [text for texts in by_package.values() for text in texts[:: -(-len(texts) // OF_PACKAGE)]]


def _counts(ids: list[int]) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return for each place and length whether the tokens before it stood earlier, and the share of its token."""
    matched, shares = np.zeros((len(ids), LONGEST_MATCH), bool), np.zeros((len(ids), LONGEST_MATCH))
    places: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for at, token in enumerate(ids):
        for length in range(1, min(LONGEST_MATCH, at) + 1):
            earlier = places[tuple(ids[at - length : at])]
            if earlier:
                weights = 0.5 ** ((at - np.array(earlier)) / HALF_LIFE)
                matched[at, length - 1] = True
                shares[at, length - 1] = weights[[ids[each] == token for each in earlier]].sum() / weights.sum()
            earlier.append(at)
    return matched, shares
