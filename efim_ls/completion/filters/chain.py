"""Cleans the model's text before an editor shows it: pure filters, in the order of `FILTERS`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from efim_ls.completion.filters.copies import copies
from efim_ls.completion.filters.indentation import indentation
from efim_ls.completion.filters.place import Filter, Place
from efim_ls.completion.filters.redefinition import redefinition
from efim_ls.completion.filters.repetition import lines_below, repetition
from efim_ls.completion.filters.rest_of_line import before_code, rest_of_line
from efim_ls.completion.filters.syntax.errors import syntax
from efim_ls.completion.filters.syntax.names import unknown_names
from efim_ls.completion.filters.trimming import line_cap, notices, silencers, trailing_blanks

FILTERS: tuple[Filter, ...] = (
    notices,
    silencers,
    rest_of_line,
    lines_below,
    indentation,
    repetition,
    redefinition,
    copies,
    syntax,
    unknown_names,
    trailing_blanks,
)


def clean(text: str, place: Place, max_lines: int) -> tuple[str, str | None]:
    """Return the cleaned suggestion and, if a filter emptied it, that filter's name.

    Before code, `text` must continue into that code: repeating it shows that the two fit. The filters then run until
    none changes anything, so that cleaning twice equals cleaning once.
    """
    if not text.strip():
        return "", None
    text = before_code(text, place)
    if not text.strip():
        return "", before_code.__name__
    steps: dict[str, Callable[[str], str]] = {each.__name__: partial(each, place=place) for each in FILTERS}
    steps[line_cap.__name__] = partial(line_cap, max_lines=max_lines)
    before = None
    while text != before:
        before = text
        for name, step in steps.items():
            text = step(text)
            if not text.strip():
                return "", name
    return text, None
