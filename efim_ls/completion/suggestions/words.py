"""The longer words of a file that begin as the word at the cursor does: one of them is often what is meant."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from efim_ls.completion.filters.place import Place

LEAST_LETTERS = 2  # of the word at the cursor: too many words begin with one
REACH = 60_000  # characters above the cursor's line, and below it, that are looked at
_REST = re.compile(r"\w*")
_WORD = re.compile(r"\w")


class Word(NamedTuple):
    """A word of the file: how often it stands there, and whether it is the nearest above of all that are alike."""

    text: str
    times: int
    nearest: bool


class FileWords(NamedTuple):
    """The longer words that begin alike, the most frequent first, and whether the beginning is a word there too."""

    longer: tuple[Word, ...] = ()
    is_word: bool = False

    @property
    def times(self) -> int:
        """How often they stand in the file together."""
        return sum(word.times for word in self.longer)


NO_WORDS = FileWords()


def file_words(stub: str, place: Place) -> FileWords:
    """Return the words of the file that begin with a stub, without those of the cursor's line."""
    if len(stub) < LEAST_LETTERS or stub[0].isdigit():
        return NO_WORDS
    above, below = _words_in(place.above[-REACH:], stub), _words_in(place.below[:REACH], stub)
    times = Counter(above)
    times.update(below)
    is_word = times.pop(stub, 0) > 0
    nearest = next((word for word in reversed(above) if word != stub), None)
    found = [Word(word, count, word == nearest) for word, count in times.items()]
    found.sort(key=lambda word: (-word.times, not word.nearest, word.text))
    return FileWords(tuple(found), is_word)


def stands_in(word: str, text: str) -> bool:
    """Return whether a word stands in a text as a whole word."""
    at = text.rfind(word)
    while at >= 0:
        if not _WORD.match(text, at + len(word)) and (at == 0 or not _WORD.match(text, at - 1)):
            return True
        at = text.rfind(word, 0, at)
    return False


def _words_in(text: str, stub: str) -> list[str]:
    """Return the words of a text that begin with a stub, in their order."""
    found, at = list[str](), text.find(stub)
    while at >= 0:
        end = at + len(stub)
        if at == 0 or not _WORD.match(text, at - 1):
            rest = _REST.match(text, end)
            end = rest.end() if rest else end
            found.append(text[at:end])
        at = text.find(stub, end)
    return found
