"""Finds what of held-out code stands in the text to train on: runs of 13 words that both contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.figures import markdown

RUN = 13  # words, as GPT-3's authors counted (arXiv 2005.14165, appendix C)
NEAR = 0.5  # of a document's runs, from which it counts as nearly a copy
SHOWN = 10  # documents in the table
_WORD = re.compile(r"\w+|[^\w\s]")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no power of it vanishes modulo 2 ** 64

Hashes = NDArray[np.uint64]


class DocumentOverlap(NamedTuple):
    """How many of a document's runs there are, and how many of these stand in the text to train on."""

    path: str
    runs: int
    known: int

    @property
    def share(self) -> float:
        """Return the known part of the runs."""
        return self.known / self.runs if self.runs else 0.0


class RunHasher:
    """Hashes runs of words; the same words get the same hash in all texts."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def runs(self, text: str) -> Hashes:
        """Return the hash of the run that begins at each word, while a whole run fits."""
        words = _WORD.findall(text)
        ids = np.fromiter((self._ids.setdefault(word, len(self._ids) + 1) for word in words), np.uint64, len(words))
        if len(ids) < RUN:
            return ids[:0]
        hashes = np.zeros(len(ids) - RUN + 1, np.uint64)
        for at in range(RUN):
            hashes = hashes * _FACTOR + ids[at : at + len(hashes)]
        return hashes


def overlaps(learnt: Iterable[CodeDocument], held_out: Sequence[CodeDocument]) -> list[DocumentOverlap]:
    """Return how much of each held-out document stands in the learnt ones, in the order given."""
    hasher = RunHasher()
    runs = [hasher.runs(document.text) for document in held_out]
    wanted = np.unique(np.concatenate(runs)) if runs else np.zeros(0, np.uint64)
    found = np.zeros(len(wanted) + 1, np.bool_)  # the last is for those that are not wanted
    for document in learnt:
        hashes = hasher.runs(document.text)
        places = np.searchsorted(wanted, hashes)
        places[places == len(wanted)] = 0
        if len(wanted):
            found[np.where(wanted[places] == hashes, places, len(wanted))] = True
    return [
        DocumentOverlap(document.path, len(own), int(found[np.searchsorted(wanted, own)].sum()))
        for document, own in zip(held_out, runs, strict=True)
    ]


def report(found: Sequence[DocumentOverlap]) -> str:
    """Return the share of all runs in a sentence, and the documents with the largest shares in a Markdown table."""
    runs, known = sum(each.runs for each in found), sum(each.known for each in found)
    near = [each for each in found if each.share >= NEAR]
    first = f"{known / max(1, runs):.2%} of {runs:,} runs of {RUN} words stand in the text to train on; "
    first += f"{len(near)} of {len(found):,} documents share half or more."
    most = sorted(found, key=lambda each: (-each.share, each.path))[:SHOWN]
    rows = [(each.path, f"{each.runs:,}", f"{each.share:.1%}") for each in most if each.known]
    return f"{first}\n\n{markdown.table([('document', 'runs', 'known'), *rows])}" if rows else first
