"""Moves the further lines of a suggestion to the depth of the place, where what it copies stood at another one."""

from __future__ import annotations

import re

from efim_ls.completion.filters.indentation import OPENS_BLOCK, style_of
from efim_ls.completion.filters.place import Place, indent_of, lines_with

_HEADER = re.compile(r"\s*(?:async|case|class|def|elif|else|except|finally|for|if|match|try|while|with)\b.*:")


def body_depth(text: str, place: Place) -> str:
    """Move a body one level below the header of its block in Python, if it is deeper."""
    if place.language != "python" or "\n" not in text:
        return text
    header, body = _first_lines(text, place)
    if not (body and _HEADER.fullmatch(header)):
        return text
    deep = indent_of(header) + _level(body, place)
    if not body.startswith(deep) or len(indent_of(body)) <= len(deep):
        return text
    return _moved(text, indent_of(body), deep)


def phrase_depth(text: str, place: Place) -> str:
    """Move the further lines of a phrase as much as its first line stands deeper or less deep than where it was said.

    If it is not in the texts around, the second line goes below what opens a block and beside anything else.
    """
    if "\n" not in text:
        return text
    first, second = _first_lines(text, place)
    if not second:
        return text
    said = _depth_of_source(first, second, place)
    if said is None:
        opens = OPENS_BLOCK.search(first) is not None
        level = _level(second, place) if opens else ""
        deeper = len(indent_of(second)) > len(indent_of(first))
        said = indent_of(second).removesuffix(level) if opens or deeper else indent_of(first)
    return _moved(text, said, indent_of(first))


def _first_lines(text: str, place: Place) -> tuple[str, str]:
    """Return the cursor's line and the next one that is not blank, if there is, both with the suggestion."""
    first, *later = [line.rstrip() for line in lines_with(text, place)]
    return first, next(filter(None, later), "")


def _level(line: str, place: Place) -> str:
    """Return one level of a line's indentation."""
    return "\t" if line.startswith("\t") else " " * style_of(place).unit


def _depth_of_source(first: str, second: str, place: Place) -> str | None:
    """Return the indentation of the nearest line like the first that is followed by the second; None without one."""
    pattern = re.compile(rf"^([ \t]*){re.escape(first.strip())}\s*\n{re.escape(second)}[ \t\r]*$", re.MULTILINE)
    for text in (place.above, place.below, *reversed(place.others)):
        if found := [each[1] for each in pattern.finditer(text)]:
            return found[-1]
    return None


def _moved(text: str, said: str, own: str) -> str:
    """Give the further lines another indentation in place of the one that they begin with."""
    first, *later = text.split("\n")
    moved = [own + line[len(said) :] if line.strip() and line.startswith(said) else line for line in later]
    return "\n".join([first, *moved])
