"""Short filters: copyright notices, trailing blanks, and too many lines."""

from __future__ import annotations

import re

from efim_ls.completion.filters.place import Place

NOTICE = re.compile(r"copyright|licen[sc]ed? under|all rights reserved|spdx-", re.IGNORECASE)


def notices(text: str, place: Place) -> str:
    """Drop a copyright or licence notice if the file has none: many files in the training data have one."""
    foreign = NOTICE.search(text) and not NOTICE.search(place.above + place.below)
    return "" if foreign else text


def trailing_blanks(text: str, place: Place) -> str:
    """Strip trailing blanks and blank lines at the end, but not before the rest of the line."""
    *lines, last = text.split("\n")
    stripped = [line.rstrip() for line in lines]
    if place.rest.strip():
        return "\n".join([*stripped, last])
    return "\n".join([*stripped, last.rstrip()]).rstrip("\n")


def line_cap(text: str, max_lines: int) -> str:
    """Keep the first `max_lines` lines."""
    return "\n".join(text.split("\n")[:max_lines])
