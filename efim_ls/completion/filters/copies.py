"""Shortens a suggestion that copies lines of another place in the file."""

from __future__ import annotations

from efim_ls.completion.filters.place import Place, lines_with
from efim_ls.text.lines import line_end_in

COPIED_LINES = 3  # lines with a letter or digit that make a copy


def copies(text: str, place: Place) -> str:
    """Cut lines that stand in the same order elsewhere in the file, three or more, to the first of them."""
    lines = text.split("\n")
    if len(lines) < COPIED_LINES:
        return text
    whole = [line.rstrip() for line in lines_with(text, place)]
    said = [number for number, line in enumerate(lines) if any(map(str.isalnum, line))]
    end = line_end_in(place.above or place.below)
    for first, last in zip(said, said[COPIED_LINES - 1 :], strict=False):
        run = end.join(whole[first : last + 1])
        if _holds_lines(place.above, run) or _holds_lines(place.below, run):
            return "\n".join(lines[: first + 1])
    return text


def _holds_lines(text: str, run: str) -> bool:
    """Return whether whole lines of a text are equal to `run`."""
    at = text.find(run)
    while at >= 0:
        after = at + len(run)
        if text[at - 1 : at] in ("", "\n", "\r") and text[after : after + 1] in ("", "\n", "\r"):
            return True
        at = text.find(run, at + 1)
    return False
