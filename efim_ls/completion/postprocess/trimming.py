"""The last filters: blanks that nobody sees, and length."""

from __future__ import annotations

from efim_ls.completion.postprocess.place import Place


def trailing_blanks(text: str, place: Place) -> str:
    """Strip blanks that end a line and blank lines at the end, but not what the rest of the line follows."""
    *lines, last = text.split("\n")
    stripped = [line.rstrip() for line in lines]
    if place.rest.strip():
        return "\n".join([*stripped, last])
    return "\n".join([*stripped, last.rstrip()]).rstrip("\n")


def line_cap(text: str, max_lines: int) -> str:
    """Keep the first lines only."""
    return "\n".join(text.split("\n")[:max_lines])
