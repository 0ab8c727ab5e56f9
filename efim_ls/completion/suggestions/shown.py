"""What is shown unasked: a beginning of a suggestion, a word of the file that is surer, or nothing.

Pure. By a preset, the first word has to be sure enough for the kind of place, and what follows it likely once that is
right. By a number, a suggestion is shown as far as all of it is likely enough. Of a line a beginning in whole words is
shown, and of the lines after it only whole ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from keyword import iskeyword

from efim_ls.completion.filters.balance import BalancedCode
from efim_ls.completion.filters.place import Place
from efim_ls.completion.suggestions.levels import least_at
from efim_ls.completion.suggestions.place_kind import Spot, spot_of
from efim_ls.completion.suggestions.sureness import guess_facts, guess_sureness, word_facts, word_sureness
from efim_ls.completion.suggestions.words import FileWords, file_words
from efim_ls.request import Preset
from model_runtime.engine.output import TextProbability, WordEnd
from model_runtime.engine.stops import OPENERS, is_closers

# A further line must be as likely as this power of the least probability: of 0.2, 0.67.
FURTHER_LINES = 0.25
# Closers and punctuation behind what is worth showing are shown if they are this likely: without them it reads badly.
CLOSERS = 0.8
UNFINISHED = (*OPENERS, ",", "\\")  # a statement goes on behind these at a line's end


SHORTEST = 2  # characters: accepting one takes as many keys as typing it
MOST_WORDS = 3  # of the file, the most frequent ones, that are weighed against the model's guess
GOES_ON = 0.8  # least probability of a word behind the first, and
NEXT_LINE = 0.67  # of a line behind the first, once what stands before it is right
_ALNUM = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class ShownPart:
    """What is shown of a suggestion and what stays hidden behind it.

    `probability` is that of all that is shown or, if nothing is, of the first word; by a preset, how sure the first
    word is. `words` are the pieces of both texts, each with its probability once those before it are right. `of_file`:
    what is shown is not the suggestion's but a word of the file.
    """

    shown: str
    hidden: str
    probability: float
    words: tuple[tuple[str, float], ...]
    of_file: bool = False


def sure_part(
    likelihood: TextProbability, start: int, place: Place, preset: Preset, divisible: bool = True
) -> ShownPart:
    """Return what to show at a place: of a suggestion from its character `start` on, or a word of the file.

    If the suggestion is not `divisible`, because code follows that it must reach, all of it is shown or nothing.
    """
    spot, text = spot_of(place), likelihood.text[start:]
    words, least = file_words(spot.stub, place), least_at(preset, spot.kind)
    facts = guess_facts(likelihood, start, spot, words) if text else None
    sure = guess_sureness(facts) if facts else 0.0
    if divisible and not (facts and facts.agrees):
        sureness, word = _surest_word(likelihood, start, spot, words, sure)
        if sureness > max(sure, least) and len(word) >= SHORTEST:
            return ShownPart(word, "", sureness, ((word, sureness),), of_file=True)
    ends = likelihood.word_ends(start)
    hidden = ShownPart("", text, sure, _words(likelihood.text, start, ends))
    if facts is None or not ends or not sure >= least:
        return hidden
    first = next((index for index, end in enumerate(ends) if end.at - start >= facts.size), 0)
    end = _last_sure(likelihood.text, start, ends, first) if divisible else ends[-1]
    if not divisible and not sure * end.probability >= least * ends[first].probability:
        return hidden
    shown = text[: end.at - start]
    if _adds_nothing(shown, spot):
        return hidden
    return ShownPart(shown, text[len(shown) :], sure, hidden.words)


def _surest_word(
    likelihood: TextProbability, start: int, spot: Spot, words: FileWords, rival: float
) -> tuple[float, str]:
    """Return the word of the file that is surest, without what is typed of it, and how sure it is."""
    best, size = (0.0, ""), len(spot.stub)
    for word in words.longer[:MOST_WORDS]:
        model = likelihood.begins(start, word.text[size:])
        best = max(best, (word_sureness(word_facts(word, words, spot, model, rival)), word.text[size:]))
    return best


def _last_sure(text: str, start: int, ends: list[WordEnd], first: int) -> WordEnd:
    """Return the last place to show from the end of the first word on: in its line, or at the end of a later one."""
    lines = [list(line) for _, line in groupby(ends, lambda end: text.count("\n", start, end.at))]
    shown = ends[first]
    for end in ends[first + 1 :]:
        if "\n" in text[start : end.at]:
            break
        if end.probability < GOES_ON * shown.probability:
            return shown
        shown = end
    before = shown
    for line in lines[1:]:
        if not line[-1].probability >= NEXT_LINE * before.probability:
            break
        before = line[-1]
        if ends_statement(text[: before.at]):
            shown = before
    return shown


def _adds_nothing(shown: str, spot: Spot) -> bool:
    """Return whether a text is not worth a look: one character, signs alone, a number's, or a keyword by itself."""
    if len(shown) < SHORTEST or not _ALNUM.search(shown) or spot.kind == "number":
        return True
    return spot.kind == "start of line" and not spot.stub and iskeyword(shown.strip())


def shown_part(likelihood: TextProbability, start: int, least: float, divisible: bool = True) -> ShownPart:
    """Return what to show of a suggestion from its character `start` on, with probability `least` or more.

    A `least` of 0 shows all. If the suggestion is not `divisible`, because code follows that it must reach, all of it
    is shown or nothing.
    """
    text, ends = likelihood.text, likelihood.word_ends(start)
    words = _words(text, start, ends)
    if not ends or not ends[0].probability >= least:  # NaN is below any limit
        return ShownPart("", text[start:], ends[0].probability if ends else 0.0, words)
    if not least:
        return ShownPart(text[start:], "", ends[-1].probability, words)
    end = _last_shown(text, start, ends, least) if divisible else ends[-1]
    if not end.probability >= least:
        return ShownPart("", text[start:], end.probability, words)
    return ShownPart(text[start : end.at], text[end.at :], end.probability, words)


def _last_shown(text: str, start: int, ends: list[WordEnd], least: float) -> WordEnd:
    """Return the last place to show: in the first line, or at the end of a later one."""
    first, *further = (list(line) for _, line in groupby(ends, lambda end: text.count("\n", start, end.at)))
    likely = [end for end in first if end.probability >= least]
    shown = max(likely, key=lambda end: expected_saving(end, start))
    for end in likely[likely.index(shown) + 1 :]:
        if not (is_closers(text[shown.at : end.at]) and end.probability >= CLOSERS * shown.probability):
            break
        shown = end
    if shown != first[-1]:
        return shown
    before = shown
    for line in further:
        if not line[-1].probability >= before.probability * least**FURTHER_LINES:
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


def _words(text: str, start: int, ends: list[WordEnd]) -> tuple[tuple[str, float], ...]:
    found, place, reached = list[tuple[str, float]](), start, 1.0
    for end in ends:
        found.append((text[place : end.at], end.probability / reached if reached else 0.0))
        place, reached = end.at, end.probability
    return tuple(found)
