"""Cleans the model's text before an editor shows it: pure filters, in the order of `FILTERS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from efim_ls.completion.filters.closed_below import closed_below
from efim_ls.completion.filters.depth import body_depth
from efim_ls.completion.filters.indentation import indentation
from efim_ls.completion.filters.place import Filter, Place, lines_with
from efim_ls.completion.filters.redefinition import DEFINING_WORDS, redefinition
from efim_ls.completion.filters.repetition import (
    COPIED_LINES,
    copies,
    lines_again,
    lines_below,
    near_copies,
    repetition,
    sentences_again,
    signs,
    turns_of_signs,
)
from efim_ls.completion.filters.rest_of_line import before_code, rest_of_line
from efim_ls.completion.filters.syntax.errors import syntax, unknown_names
from efim_ls.completion.filters.syntax.readable import breaks_off
from efim_ls.completion.filters.trimming import line_cap, notices, silencers, trailing_blanks
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.brackets import ENDS
from model_runtime.engine.stops import is_closers

MOST_ROUNDS = 12  # of all filters; a suggestion takes two, seldom three
MOST_TIMES = 2  # that a long line may stand in an alternative
LONG_LINE = 20  # characters without blanks: shorter lines, such as `else:`, may stand more often


def _always(_text: str, _place: Place) -> bool:
    return True


def _before_something(_text: str, place: Place) -> bool:
    return place.rest != ""


def _begins_a_line(text: str, place: Place) -> bool:
    return "\n" in text or not place.before.strip()


def _has_lines(text: str, _place: Place) -> bool:
    return "\n" in text


def _has_lines_of_a_copy(text: str, _place: Place) -> bool:
    return text.count("\n") >= COPIED_LINES - 1


def _may_define(text: str, place: Place) -> bool:
    line = place.before + text + place.rest
    return any(word in line for word in DEFINING_WORDS)


def _may_close(text: str, place: Place) -> bool:
    blocks = LANGUAGES[place.language].word_blocks
    return any(sign in text for sign in ENDS) or (
        blocks is not None and any(map(text.__contains__, blocks.closers.values()))
    )


# When each filter may change a suggestion; elsewhere it is not called.
FILTERS: Mapping[Filter, Callable[[str, Place], bool]] = {
    notices: _always,
    silencers: _always,
    rest_of_line: _before_something,
    lines_below: _always,
    body_depth: _has_lines,
    indentation: _begins_a_line,
    lines_again: _has_lines,
    repetition: _always,
    redefinition: _may_define,
    copies: _has_lines_of_a_copy,
    turns_of_signs: _always,
    signs: _always,
    near_copies: _always,
    sentences_again: _always,
    syntax: _always,
    unknown_names: _always,
    closed_below: _may_close,
    trailing_blanks: _always,
}


def clean(text: str, place: Place, max_lines: int) -> tuple[str, str | None]:
    """Return the cleaned suggestion and, if a filter emptied it, that filter's name.

    Before code, `text` must continue into that code: repeating it shows that the two fit. The filters then run until
    none changes anything, so that cleaning twice equals cleaning once. Text on which they never agree is dropped.
    """
    if place.part_end is not None and (ending := place.part_end.search(text)):
        text = text[: ending.start()].rstrip()  # another language goes on behind it
    if not text.strip():
        return "", None
    if not is_closers(place.rest):
        text = before_code(text, place)
        if not text.strip():
            return "", before_code.__name__
    for _ in range(MOST_ROUNDS):
        before = text
        for each, may_change in FILTERS.items():
            text = each(text, place) if may_change(text, place) else text
            if not text.strip():
                return "", each.__name__
        text = line_cap(text, max_lines)
        if not text.strip():
            return "", line_cap.__name__
        if text == before:
            return text, None
    return "", "no agreement"


def several(texts: Iterable[str], place: Place, count: int, said: str) -> list[str]:
    """Return at most `count` suggestions of different first lines, of which filters made the first from `said`.

    Those that break off within a statement come last, the first one only if it breaks off where filters cut its line.
    """
    kept = distinct(texts, place)
    if len(kept) < 2:
        return kept

    def comes_last(at: int) -> bool:
        return (at > 0 or _cuts_line(said, kept[at])) and breaks_off(kept[at], place)

    return [kept[at] for at in sorted(range(len(kept)), key=comes_last)][:count]


def _cuts_line(said: str, text: str) -> bool:
    """Return whether a text repeats an earlier one, except its last line."""
    return said.startswith(text) and said[len(text) :].lstrip(" \t")[:1] not in ("", "\n")


def distinct(texts: Iterable[str], place: Place) -> list[str]:
    """Return the suggestions whose first line differs from all earlier first lines in more than blanks.

    Empty suggestions are left out, and so are alternatives that repeat a long line over and over.
    """
    kept: dict[tuple[str, ...], str] = {}
    for text in filter(None, texts):
        lines = ["".join(line.split()) for line in lines_with(text, place)]
        loops = any(count > MOST_TIMES and len(line) >= LONG_LINE for line, count in Counter(lines).items())
        if not (kept and loops):
            blank = len(text) - len(text.lstrip())
            kept.setdefault(tuple(lines[: text.count("\n", 0, blank) + 1]), text)
    return list(kept.values())
