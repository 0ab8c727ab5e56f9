"""The part shown for typing: a likely beginning of a suggestion, a surer word of the file, or nothing.

Pure. By a number, a line's beginning in whole words is shown if it is likely enough, and of the lines behind it whole
ones alone, each likelier than the first has to be. By a preset, the first word has to be sure enough, as the kind of
place and the file say, and to be a name that exists; of its line, further whole words are shown as long as all of it
is that sure, and further lines that are likely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from efim_ls.completion.filters.balance import BalancedCode
from efim_ls.completion.filters.place import Place
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.completion.suggestions.place_kind import Spot, spot_of
from efim_ls.completion.suggestions.sureness import Sureness, first_word_end, guess_facts, word_facts
from efim_ls.completion.suggestions.words import Words, stands_nowhere, words_at
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Preset, Reason
from model_runtime.engine.output import TextProbability, WordEnd, word_pieces
from model_runtime.engine.stops import OPENERS, is_closers

MOST_WORDS = 3  # of the file, the most frequent ones, that are weighed against the model's guess
NEXT_LINE = 0.67  # least probability of a line behind the first, once what stands before it is right
PAUSED = 0.2  # least probability of text shown after a pause in typing
ONLY = 0.9  # sureness of the only listed name that begins as the word at the cursor
# Most listed names that begin as typed and are compared, and a probability next to which others count as nothing.
MOST_LISTED, UNSAID = 64, 0.005
COUNTED = 0.02  # share of a word's probability by which the workspace's files have it
_CLOSING = re.compile(r"[\s)\]},;:]+")
_ALNUM, _OPENER = re.compile(r"[^\W_]"), re.compile(r"[(\[{]")
# A further line must be as likely as this power of the least probability: of 0.2, 0.67.
FURTHER_LINES = 0.25
# Closers and punctuation behind the shown part are shown if they are this likely: without them it reads badly.
CLOSERS = 0.8
SHORTEST = 2  # characters: accepting one takes as many keys as typing it
UNFINISHED = (*OPENERS, ",", "\\")  # a statement goes on behind these at a line's end


class Guess(NamedTuple):
    """A suggestion's `text` from its character `start` on, where its words end, and how sure its first word is.

    That word has `size` characters, with the signs before it.
    """

    text: str
    start: int
    spot: Spot
    ends: Sequence[WordEnd]
    size: int
    sureness: float
    language: str = ""


def sure_part(
    likelihood: TextProbability,
    start: int,
    place: Place,
    preset: Preset,
    by: Sureness,
    divisible: bool = True,
    refuted: bool = False,
) -> ShownPart:
    """Return what to show at a place: of a suggestion from its character `start` on, or a word of the file.

    Judged `by` the weights of the model that said it. `refuted`: another guess at the word at the cursor was wrong.
    If the suggestion is not `divisible`, because code follows that it must reach, all of it is shown or nothing.
    """
    spot, text = spot_of(place, refuted), likelihood.text[start:]
    words, least = words_at(spot, place), LEVELS[preset]
    facts = guess_facts(likelihood, start, spot, words, place) if text else None
    shares, sure = _listed_shares(likelihood, start, spot, words), 0.0
    if facts:
        made = spot.stub + text[: facts.size]
        is_only = words.only is not None and words.only.text == made
        sure = max(by.of_guess(facts), shares.get(made, 0.0), ONLY * is_only)
    is_unlisted = facts and words.are_listed and is_made_up(likelihood, start, facts.size, spot, words, place)
    rival = 0.0 if is_unlisted else sure
    if divisible:
        agrees = facts is not None and facts.agrees
        sureness, word = (0.0, "") if agrees else _surest_word(by, likelihood, start, spot, words, rival)
        name, share = max(shares.items(), key=itemgetter(1), default=("", 0.0))
        if share > max(sureness, rival):
            sureness, word = share, name[len(spot.stub) :]
        # Not in place of a guess that is shown or is a word of the file: not all names may be listed.
        if words.only and rival < least and not agrees:
            sureness, word = ONLY, words.only.text[len(spot.stub) :]
        if is_preferred(word, sureness, rival, least):
            source = words.source(spot.stub + word)
            return ShownPart(word, "", sureness, ((word, sureness),), least, source)
    ends = likelihood.word_ends(start)
    part = ShownPart("", text, sure, word_pieces(likelihood.text, start, ends), least, reason="low confidence")
    if not facts or is_unlisted:
        return replace(part, reason="unknown word") if is_unlisted else part
    found = sure_beginning(
        Guess(likelihood.text, start, spot, ends, facts.size, sure, place.language), least, divisible
    )
    if found.shown and is_made_up(likelihood, start, facts.size, spot, words, place):
        return replace(part, reason="unknown word")
    shown, probability, reason = found
    return replace(part, shown=shown, hidden=text[len(shown) :], probability=probability, reason=reason)


def is_preferred(word: str, sureness: float, rival: float, least: float) -> bool:
    """Return whether the rest of a word of the file replaces a guess as sure as its `rival`."""
    return sureness > max(rival, least) and len(word) >= SHORTEST


class Beginning(NamedTuple):
    """The `shown` text of a guess and its `sureness`; without text, the `reason` and the sureness that was judged."""

    shown: str
    sureness: float
    reason: Reason | None


def sure_beginning(guess: Guess, least: float, divisible: bool = True) -> Beginning:
    """Return the part of a guess that is sure enough, even if it makes an unknown word."""
    text, start, spot, ends, size, sure, language = guess
    if not ends or not sure >= least:  # NaN is below any limit
        return Beginning("", sure, "low confidence")
    first = next((index for index, end in enumerate(ends) if end.at - start >= size), 0)
    joint = [WordEnd(end.at, sure * end.probability / (ends[first].probability or 1.0)) for end in ends[first:]]
    if not divisible and not joint[-1].probability >= least:
        return Beginning("", joint[-1].probability, "low confidence")
    # What cannot be divided is shown with the blanks before the code that follows.
    last = last_shown(text, start, joint, least, NEXT_LINE)
    shown = text[start : with_closers(text, start, joint, last).at if divisible else len(text)]
    return Beginning("", sure, "too little") if _adds_nothing(shown, spot, language) else Beginning(shown, sure, None)


def paused_part(likelihood: TextProbability, start: int, place: Place, divisible: bool = True) -> ShownPart | None:
    """Return the part of a suggestion to show after a pause in typing, None if that is empty.

    While you type, you would have to read text that the next key may refute.
    """
    part, spot = shown_part(likelihood, start, PAUSED, divisible), spot_of(place)
    if not part.shown or _is_little(part.shown, spot, place.language):
        return None
    size, words = first_word_end(likelihood.text[start:]), words_at(spot, place)
    return None if is_made_up(likelihood, start, size, spot, words, place) else part


def is_made_up(likelihood: TextProbability, start: int, size: int, spot: Spot, words: Words, place: Place) -> bool:
    """Return whether a guess makes an unknown word at the cursor."""
    first, rest = likelihood.text[start : start + size], likelihood.text[start + size :]
    if not (first[0].isalnum() or first[0] == "_") or likelihood.shares(start, start + size).counts >= COUNTED:
        return False
    return stands_nowhere(spot.stub + first, rest, spot, words, place)


def _surest_word(
    by: Sureness, likelihood: TextProbability, start: int, spot: Spot, words: Words, rival: float
) -> tuple[float, str]:
    """Return the rest of the surest word of the file, and how sure it is."""
    best, size = (0.0, ""), len(spot.stub)
    for word in words.longer[:MOST_WORDS]:
        model = likelihood.begins(start, word.text[size:])
        best = max(best, (by.of_word(word_facts(word, words, spot, model, rival)), word.text[size:]))
    return best


def _listed_shares(likelihood: TextProbability, start: int, spot: Spot, words: Words) -> dict[str, float]:
    """Return the listed names that begin as typed, each with its share of what the model says of all of them.

    There are none where names may stand that are not listed.
    """
    listed, stub = words.all_listed, spot.stub
    names = sorted(name for name in listed.beginning_with(stub) if name != stub) if listed else []
    if len(names) > MOST_LISTED:
        return {}
    said = {name: likelihood.begins(start, name[len(stub) :]) for name in names}
    total = sum(said.values()) + UNSAID
    return {name: chance / total for name, chance in said.items()}


def _adds_nothing(shown: str, spot: Spot, language: str) -> bool:
    """Return whether a text is not worth a look: one character, signs alone, a number's, or a keyword by itself."""
    return not _ALNUM.search(shown) or _is_little(shown, spot, language)


def _is_little(shown: str, spot: Spot, language: str) -> bool:
    """Return whether a text is one character, closing brackets, a number's, or a keyword by itself."""
    if len(shown) < SHORTEST or _CLOSING.fullmatch(shown) or spot.kind == "number":
        return True
    begins = spot.kind == "start of line" and not spot.stub
    return begins and shown.strip() in LANGUAGES[language].words.keywords


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


def with_closers(text: str, start: int, ends: Sequence[WordEnd], shown: WordEnd) -> WordEnd:
    """Return where a text's open brackets are closed on the same line; `shown` if that is not likely enough."""
    if not _OPENER.search(text, start, shown.at):
        return shown
    code, found = BalancedCode(text[start:], angles=False), shown
    if not code.cut(shown.at - start, "").open:
        return shown
    for end in ends:
        if end.at > shown.at:
            if "\n" in text[shown.at : end.at] or not end.probability >= CLOSERS * shown.probability:
                break
            is_next = found == shown or is_closers(text[found.at : end.at])
            found = end if is_next and not code.cut(end.at - start, "").open else found
    return found


def expected_saving(end: WordEnd, start: int) -> float:
    """Return how many keys accepting a suggestion up to a place is expected to save; accepting takes one itself.

    On held-out packages the longest beginning that is likely enough saves fewer keys, and is wrong more often.
    """
    return end.probability * (end.at - start - 1)


def ends_statement(text: str) -> bool:
    """Return whether several lines may end here: no string, call or literal is open, and no block is empty."""
    left = BalancedCode(text, angles=False).cut(len(text), "")
    return not left.open and not left.quote and not text.endswith(UNFINISHED)
