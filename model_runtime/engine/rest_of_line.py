"""The text right of the cursor on its line: closers that an editor put there, or code that a suggestion ends at."""

from __future__ import annotations

import re

CLOSING = ")]}>\"'`"
PUNCTUATION = CLOSING + ",;:"
EVIDENCE_LENGTH = (
    4  # characters of the rest that a text must repeat; fewer show more that is wrong, more less that is right
)

_ONLY_PUNCTUATION = re.compile(rf"[\s{re.escape(PUNCTUATION)}]*")


def is_closers(rest: str) -> bool:
    """Return whether the rest of a line is blank or only closers and punctuation, and so stays out of the prompt."""
    return _ONLY_PUNCTUATION.fullmatch(rest) is not None


def evidence(rest: str) -> str:
    """Return the beginning of a line's rest that a text must repeat to count as having reached it."""
    return rest.rstrip()[:EVIDENCE_LENGTH]


def find_rest(text: str, rest: str) -> int | None:
    """Return where a text first repeats the beginning of `rest` (not blank) outside a word, or None.

    Names are cut where their parts join: after an underscore `rest` may begin.
    """
    beginning = evidence(rest)
    at = text.find(beginning)
    while at > 0 and text[at - 1].isalnum() and beginning[0].isalnum():
        at = text.find(beginning, at + 1)
    return at if at >= 0 else None


def text_before_rest(text: str, rest: str) -> str:
    """Return the first line of a text up to where it repeats the code `rest`, or nothing if it never does."""
    line = text.split("\n", 1)[0]
    return line[: find_rest(line, rest) or 0]
