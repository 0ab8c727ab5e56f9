"""Files that are typed key by key, with slips and with words changed in between: hardly a key shows what is wrong."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

from efim_ls.languages.table import language_of
from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.tokens import NAME
from efim_ls.text.lines import enclosing_line
from tests.unit.edited import Edited

TEXTS = Path(__file__).parents[2] / "golden" / "tasks" / "texts.toml"
KEYS, WRONG_OF = 10_000, 1_000  # keys that are typed; one of how many may show what is wrong
SLIPS, LOOKS_BACK = 0.03, 0.3  # of keys; of lines, after which a word above is changed


def keys(text: str, edited: Edited, chance: random.Random) -> Iterator[None]:
    """Type a text, and yield after each key."""
    for line in text.splitlines(keepends=True):
        for character in line:
            end = len(edited.document.text)
            if chance.random() < SLIPS:
                edited.edit(end, 0, chance.choice("aeiounrst"), pause=0.2)
                yield
                edited.edit(end, 1, "", pause=0.2)
                yield
            edited.edit(end, 0, character, pause=0.2)
            yield
        if chance.random() < LOOKS_BACK:
            yield from other_word(edited, chance)


def other_word(edited: Edited, chance: random.Random) -> Iterator[None]:
    """Go to a name above, take its end away and type another, with a number that no other has."""
    word = chance.choice(list(NAME.finditer(edited.document.text)) or [None])
    if word is None:
        return
    at = word.end()
    for _ in range(min(2, len(word[0]) - 1)):
        at -= 1
        edited.edit(at, 1, "", pause=0.2)
        yield
    for character in f"_{chance.randrange(10**6)}":
        edited.edit(at, 0, character, pause=0.2)
        at += 1
        yield


def test_hardly_a_key_shows_what_is_wrong():
    chance, typed, wrong = random.Random(0), 0, list[str]()
    for raw in tomllib.loads(TEXTS.read_text("utf-8"))["text"]:
        edited = Edited("", language_of(raw["path"]))
        edits = NextEdits(edited.history)
        for _ in keys(raw["text"], edited, chance):
            typed += 1
            if offered := edits.propose(edited.document, edited.cursor):
                start, end, _ = enclosing_line(edited.document.text, offered.start)
                line = edited.document.text[start : offered.start] + offered.added
                line += edited.document.text[offered.end : end]
                wrong += [line] * (line not in raw["text"].splitlines())
        if typed >= KEYS:
            break
    assert typed >= KEYS and len(wrong) <= typed / WRONG_OF, wrong
