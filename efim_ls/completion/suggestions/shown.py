"""The likely beginning of a suggestion: the part shown for typing where the least probability is a number.

Pure. A suggestion is worth showing up to where the model is unsure: of a line a beginning in whole words that is
likely enough, and of the lines after it only whole ones, each of which must be likelier than the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from efim_ls.completion.filters.balance import BalancedCode
from efim_ls.request import Reason
from model_runtime.engine.output import TextProbability, WordEnd, word_pieces
from model_runtime.engine.stops import OPENERS, is_closers

# A further line must be as likely as this power of the least probability: of 0.2, 0.67.
FURTHER_LINES = 0.25
# Closers and punctuation behind the shown part are shown if they are this likely: without them it reads badly.
CLOSERS = 0.8
SHORTEST = 2  # characters: accepting one takes as many keys as typing it
UNFINISHED = (*OPENERS, ",", "\\")  # a statement goes on behind these at a line's end


@dataclass(frozen=True)
class ShownPart:
    """The shown part of a suggestion and the hidden part behind it.

    `probability` is the joint one of the shown part or, if that is empty, of the first word; by a preset, how sure
    the first word is. `words` are the pieces of both texts, each with its probability once those before it are right.
    `least` was needed. `source` says in plain words where the shown text is from if it is not the suggestion's, and
    `reason` why nothing is shown.
    """

    shown: str
    hidden: str
    probability: float
    words: tuple[tuple[str, float], ...]
    least: float = 0.0
    source: str = ""
    reason: Reason | None = None

    def cut(self, size: int) -> ShownPart:
        """Return the part with no more than `size` characters shown; nothing if these are not worth a key."""
        if size >= len(self.shown):
            return self
        shown = self.shown[:size] if size >= SHORTEST else ""
        hidden, reason = self.shown[len(shown) :] + self.hidden, None if shown else "no fit"
        return replace(self, shown=shown, hidden=hidden, reason=reason)


def shown_part(likelihood: TextProbability, start: int, least: float, divisible: bool = True) -> ShownPart:
    """Return what to show of a suggestion from its character `start` on, with probability `least` or more.

    A `least` of 0 shows all. If the suggestion is not `divisible`, because code follows that it must reach, all of it
    is shown or nothing.
    """
    text, ends = likelihood.text, likelihood.word_ends(start)
    words = word_pieces(text, start, ends)
    if not ends or not ends[0].probability >= least:  # NaN is below any limit
        probability = ends[0].probability if ends else 0.0
        return ShownPart("", text[start:], probability, words, least, reason="low confidence")
    if not least:
        return ShownPart(text[start:], "", ends[-1].probability, words, least)
    end = last_shown(text, start, ends, least, least**FURTHER_LINES) if divisible else ends[-1]
    if not end.probability >= least:
        return ShownPart("", text[start:], end.probability, words, least, reason="low confidence")
    at = end.at if divisible else len(text)  # with the blanks before the code that follows
    return ShownPart(text[start:at], text[at:], end.probability, words, least)


def last_shown(text: str, start: int, ends: Sequence[WordEnd], least: float, further: float) -> WordEnd:
    """Return the last place to show, of which the first is likely enough.

    In the first line, all before it has the probability `least` or more, and accepting it is expected to save most
    keys. Each later line, whose end it may be, needs the probability `further` once those before it are right.
    """
    first, *later = (list(line) for _, line in groupby(ends, lambda end: text.count("\n", start, end.at)))
    likely = [end for end in first if end.probability >= least]
    shown = max(likely, key=lambda end: expected_saving(end, start))
    for end in likely[likely.index(shown) + 1 :]:
        if not (is_closers(text[shown.at : end.at]) and end.probability >= CLOSERS * shown.probability):
            break
        shown = end
    if shown != first[-1]:
        return shown
    before = shown
    for line in later:
        if not line[-1].probability >= before.probability * further:
            break
        before = line[-1]
        if ends_statement(text[: before.at]):
            shown = before
    return shown


def expected_saving(end: WordEnd, start: int) -> float:
    """Return how many keys accepting a suggestion up to a place is expected to save; accepting takes one itself.

    On held-out packages the longest beginning that is likely enough saves fewer keys, and is wrong more often.
    """
    return end.probability * (end.at - start - 1)


def ends_statement(text: str) -> bool:
    """Return whether several lines may end here: no string, call or literal is open, and no block is empty."""
    left = BalancedCode(text, angles=False).cut(len(text), "")
    return not left.open and not left.quote and not text.endswith(UNFINISHED)
