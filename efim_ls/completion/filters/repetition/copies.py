"""Removes lines of a suggestion that the file has already."""

from __future__ import annotations

from efim_ls.completion.filters.place import Place, filled_lines, has_letters, lines_with
from efim_ls.text.lines import line_end_in

COPIED_LINES = 3  # lines with a letter or digit that make a copy


def lines_below(text: str, place: Place) -> str:
    """Cut the last lines if they repeat the document's next lines, everything if the first lines do."""
    below = place.lines_below
    if _starts_like(below, text, place):
        return ""
    lines = [line.rstrip() for line in lines_with(text, place)]
    filled = [number for number, line in enumerate(lines) if number and line]
    for count in range(min(len(filled), len(below)), 0, -1):
        if [lines[number] for number in filled[-count:]] == below[:count]:
            return "\n".join(text.split("\n")[: filled[-count]])
    return text


def _starts_like(below: list[str], text: str, place: Place) -> bool:
    """Return whether the suggestion's whole lines begin like the document's next lines.

    Two lines are compared if both sides have two: many blocks begin with the same decorator.
    """
    first, _, later = text.partition("\n")
    if not place.before.strip() or first.strip():
        written = filled_lines(f"{place.before}{text}{place.rest}")
    else:
        written = filled_lines(later + place.rest)
    shared = min(2, len(written), len(below))
    return shared > 0 and written[:shared] == below[:shared]


def copies(text: str, place: Place) -> str:
    """Cut lines that stand in the same order elsewhere in the file, three or more, to the first of them."""
    lines = text.split("\n")
    if len(lines) < COPIED_LINES:
        return text
    whole = [line.rstrip() for line in lines_with(text, place)]
    said = [number for number, line in enumerate(lines) if has_letters(line)]
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
