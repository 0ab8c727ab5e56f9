"""The baseline that a model must beat: repeats how another line or word with the same start continues."""

from __future__ import annotations

import re
from collections.abc import Iterator

from efim_lab.gate.evaluation.places.cursors import Context

UNFINISHED = re.compile(r"\w+\Z")


def complete(context: Context, others: tuple[str, ...] = ()) -> str:
    """Return the rest of the nearest line with the same start, else of the nearest such word, else nothing.

    Lines above the cursor are nearest, the last first, then those below, then other files, the last first.
    """
    return _rest_of_line(context, others) or _rest_of_word(context, others)


def _rest_of_line(context: Context, others: tuple[str, ...]) -> str:
    started = context.typed.lstrip()
    lines = (line.strip() for line in _lines(context, others))
    return next((line[len(started) :] for line in lines if started and line.startswith(started)), "")


def _lines(context: Context, others: tuple[str, ...]) -> Iterator[str]:
    yield from reversed(context.head.split("\n"))
    yield from context.tail.split("\n")
    for other in reversed(others):
        yield from other.split("\n")


def _rest_of_word(context: Context, others: tuple[str, ...]) -> str:
    if (unfinished := UNFINISHED.search(context.typed)) is None:
        return ""
    longer = re.compile(rf"\b{re.escape(unfinished[0])}(\w+)")
    if above := longer.findall(context.head + context.typed):
        return above[-1]
    found = (longer.search(text) for text in (context.tail, *reversed(others)))
    return next((match[1] for match in found if match), "")
