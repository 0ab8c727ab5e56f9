"""Where a text says what stands right of the cursor: there a suggestion inside a line ends."""

from __future__ import annotations

EVIDENCE = 4  # characters of the rest that a text must say; fewer show more that is wrong, more less that is right


def evidence(rest: str) -> str:
    """The beginning of a line's rest, by which a text is seen to have met it; all of a shorter one."""
    return rest.rstrip()[:EVIDENCE]


def meeting(text: str, rest: str) -> int | None:
    """Where a text first says the beginning of `rest`, which is not blank, other than inside a word; None if nowhere.

    Names are cut where their parts join: after an underscore `rest` may begin.
    """
    said = evidence(rest)
    at = text.find(said)
    while at > 0 and text[at - 1].isalnum() and said[0].isalnum():
        at = text.find(said, at + 1)
    return at if at >= 0 else None


def until(text: str, rest: str) -> str:
    """What the first line of a text says before it meets the code `rest`; nothing where it never does."""
    line = text.split("\n", 1)[0]
    return line[: meeting(line, rest) or 0]
