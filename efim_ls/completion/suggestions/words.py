"""The longer words that begin as the word at the cursor does: words of the file, and names that code expects there.

The intended word is often among them, and a guess that is not among them is seldom right.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from efim_ls.completion.filters.place import Place, holds_word
from efim_ls.completion.suggestions.place_kind import PROSE, Spot
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Expected, Names

LEAST_LETTERS = 2  # of the word at the cursor: too many words of a file begin with one
REACH = 60_000  # characters above the cursor's line, and below it, that are looked at
LONGEST_BEFORE = 80  # characters before the cursor's word that are compared with what stands elsewhere
# What stands before a word: the word or the signs before it, with the blanks between.
_BEFORE = re.compile(r"(?:\w+\s*)?[^\w\s]{1,3}\s*\Z|\w+\s+\Z")
_REST = re.compile(r"\w*")
_WORD = re.compile(r"\w")


class Word(NamedTuple):
    """A word: how often it stands in the file, whether it is the nearest above of all that are alike, and whether
    it is among the names that code expects there.
    """

    text: str
    times: int
    nearest: bool
    expected: bool = False


class Words(NamedTuple):
    """The longer words that begin alike, those that are expected first, then the most frequent.

    `is_word`: the beginning is a word of the file itself. `expected` are the names that must stand there, if known.
    """

    longer: tuple[Word, ...] = ()
    is_word: bool = False
    expected: Expected | None = None

    @property
    def are_listed(self) -> bool:
        """Whether another server of the editor lists the names that must stand there."""
        return self.expected is not None and self.expected.lister != ""

    @property
    def all_listed(self) -> Names | None:
        """The names that another server of the editor lists, if no other name may stand there."""
        expected = self.expected
        return expected.names if expected and expected.lister and not expected.names.is_open else None

    @property
    def only(self) -> Word | None:
        """The only listed name or keyword with this beginning: any other would be an error, or is rare.

        None if the letters are such a name themselves, or at an argument a word of the file.
        """
        found, expected = [word for word in self.longer if word.expected], self.expected
        if expected is None or len(found) != 1 or expected.stub in expected.names.kinds:
            return None
        if expected.kind == "keyword":
            return None if self.is_word else found[0]
        letters = LEAST_LETTERS if expected.names.is_open else 1
        return found[0] if expected.lister and len(expected.stub) >= letters else None

    @property
    def times(self) -> int:
        """How often they stand in the file together, those that do not counted as one."""
        return sum(max(1, word.times) for word in self.longer)

    def source(self, text: str) -> str:
        """Return in plain words where one of the longer words is from."""
        behind_a_dot = Word(text, 0, False, True)  # where no letter is typed, nobody looks the words up
        word = next((word for word in self.longer if word.text == text), behind_a_dot)
        times = "once" if word.times == 1 else f"{word.times:,} times"
        if not (word.expected and self.expected):
            return f"a word of this file, {times}"
        source = self.expected.source(text)
        return f"{source}, {times} in this file" if word.times else source


def words_at(spot: Spot, place: Place) -> Words:
    """Return the words at a place: of the file, without the cursor's line, and those that code expects."""
    expected = place.names_after("") if spot.kind not in PROSE else None
    stub = spot.stub
    if spot.kind == "number" or len(stub) < (1 if expected else LEAST_LETTERS) or stub[0].isdigit():
        return Words(expected=expected)
    above, below = (_words_in(text, stub) for text in _near(place))
    times = Counter(above)
    times.update(below)
    is_word = times.pop(stub, 0) > 0
    nearest = next((word for word in reversed(above) if word != stub), None)
    names = frozenset(expected.names.beginning_with(stub)) - {stub} if expected else frozenset[str]()
    only = expected is not None and expected.kind != "keyword" and not expected.names.is_open
    found = [Word(word, count, word == nearest, word in names) for word, count in times.items()]
    found = [word for word in found if word.expected or not only]
    found += [Word(name, 0, False, True) for name in names if name not in times]
    found.sort(key=lambda word: (-word.expected, -word.times, not word.nearest, word.text))
    return Words(tuple(found), is_word, expected)


def stands_in_file(word: str, place: Place) -> bool:
    """Return whether a word stands in the lines within reach around the cursor's."""
    return any(holds_word(text, word) for text in _near(place))


def is_usual(guess: str, spot: Spot, place: Place) -> bool:
    """Return whether a guess follows wherever what stands before it, and is typed of it, stands within reach.

    That has to be once at least.
    """
    lead = place.before[: len(place.before) - len(spot.stub)]
    found = _BEFORE.search(lead, max(0, len(lead) - LONGEST_BEFORE))
    if found is None:
        return False
    begun = found[0] + spot.stub
    return 0 < _count(begun, place) == _count(begun + guess, place)


def stands_nowhere(word: str, rest: str, spot: Spot, words: Words, place: Place) -> bool:
    """Return whether a word at the cursor is used in code and stands nowhere else that is known; `rest` follows it.

    Names that code defines there are new, such as parameters and targets, and prose may have any word.
    """
    language = LANGUAGES[place.language].words
    if spot.kind in PROSE or spot.kind in ("new name", "number") or word in language.known:
        return False
    expected = words.expected
    if expected and expected.kind != "keyword" and not (expected.lister and expected.names.is_open):
        return not expected.names.may_have(word)
    if expected and expected.lister and word in expected.names.kinds:
        return False
    if not language.lists_words or (spot.kind == "attribute" and not language.lists_members):
        return False
    is_defined = spot.kind in ("start of line", "argument") and language.defined.match(rest)
    if is_defined or language.defines.search(place.before):
        return False
    if place.in_modules(word):
        return False
    return not any(holds_word(text, word) for text in (place.above, place.before, place.below, *place.others))


def _near(place: Place) -> tuple[str, str]:
    return place.above[-REACH:], place.below[:REACH]


def _count(part: str, place: Place) -> int:
    return sum(text.count(part) for text in _near(place))


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
