"""The baseline that a model must beat: repeats how an earlier line or word with the same start continued."""

from __future__ import annotations

import re

from efim_lab.evaluation.places.cursors import Context

UNFINISHED = re.compile(r"\w+\Z")


def complete(context: Context) -> str:
    """Return the rest of the last earlier line with the same start, else of the last such word, else nothing."""
    return _rest_of_line(context) or _rest_of_word(context)


def _rest_of_line(context: Context) -> str:
    started = context.typed.lstrip()
    lines = (line.strip() for line in reversed(context.head.split("\n")))
    return next((line[len(started) :] for line in lines if started and line.startswith(started)), "")


def _rest_of_word(context: Context) -> str:
    unfinished = UNFINISHED.search(context.typed)
    if unfinished is None:
        return ""
    longer = re.findall(rf"\b{re.escape(unfinished[0])}(\w+)", context.head + context.typed)
    return longer[-1] if longer else ""
