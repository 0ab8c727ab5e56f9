"""The suggestion against the lines that follow the cursor's line."""

from __future__ import annotations

from efim_ls.completion.postprocess.place import Place, filled_lines, lines_with


def lines_below(text: str, place: Place) -> str:
    """Take off last lines that repeat the next ones of the document, and everything if the first lines do."""
    below = filled_lines(place.below)
    if _starts_like(below, text, place):
        return ""
    lines = [line.rstrip() for line in lines_with(text, place)]
    filled = [number for number, line in enumerate(lines) if number and line]
    for count in range(min(len(filled), len(below)), 0, -1):
        if [lines[number] for number in filled[-count:]] == below[:count]:
            return "\n".join(text.split("\n")[: filled[-count]])
    return text


def _starts_like(below: list[str], text: str, place: Place) -> bool:
    """Tell whether the suggestion's whole lines begin as the document goes on.

    Two lines are compared where both sides have two: many blocks begin with the same decorator.
    """
    first, _, later = text.partition("\n")
    if not place.before.strip() or first.strip():
        written = filled_lines(f"{place.before}{text}{place.rest}")
    else:
        written = filled_lines(later + place.rest)
    shared = min(2, len(written), len(below))
    return shared > 0 and written[:shared] == below[:shared]
