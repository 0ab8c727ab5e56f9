"""Groups of suggestions that are alike for the level at which they are shown: counted together, without any text."""

from __future__ import annotations

from typing import Literal, NamedTuple

BIN_PERCENT = 5  # width of a bin of confidences

BinCount = Literal["shown", "kept"]


class ConfidenceBin(NamedTuple):
    """Suggestions in a language, of `percent` to `percent + BIN_PERCENT` % confidence."""

    language: str
    percent: int

    @property
    def confidence(self) -> float:
        """The middle of the bin, 0 to 1."""
        return (self.percent + BIN_PERCENT / 2) / 100


class BinCounts(NamedTuple):
    """How many suggestions of a bin were shown, and how many of those were accepted and for the most part kept."""

    shown: int
    kept: int


def bin_of(language: str, confidence: float) -> ConfidenceBin | None:
    """Return the bin of a suggestion, None if its confidence is no probability."""
    if not 0 <= confidence <= 1:  # NaN too
        return None
    percent = min(int(confidence * 100), 99)
    return ConfidenceBin(language, percent - percent % BIN_PERCENT)
