"""Moves the further lines of a suggestion to the depth of the place if the copied lines stood at another depth."""

from __future__ import annotations

import re

from efim_ls.completion.filters.indentation import style_of
from efim_ls.completion.filters.place import Place, indent_of, lines_with
from efim_ls.languages.table import LANGUAGES


def body_depth(text: str, place: Place) -> str:
    """Move a body one level below the header of its block where indentation makes blocks, if it is deeper."""
    indented = LANGUAGES[place.language].indented
    if indented is None or "\n" not in text:
        return text
    header, body = _first_lines(text, place)
    if not (body and indented.header.fullmatch(header)):
        return text
    level = "\t" if body.startswith("\t") else " " * style_of(place).columns
    deep = indent_of(header) + level
    if not body.startswith(deep) or len(indent_of(body)) <= len(deep):
        return text
    return _moved(text, indent_of(body), deep)


def phrase_depth(text: str, place: Place) -> str:
    """Move the further lines of a phrase as much as its first line stands deeper or less deep than where it was said.

    Nothing moves if it is not in the texts around, or stood as deep as here somewhere.
    """
    if "\n" not in text:
        return text
    first, second = _first_lines(text, place)
    said = _depths_of_sources(first, second, place) if second else []
    own = indent_of(first)
    return _moved(text, said[0], own) if said and own not in said else text


def _first_lines(text: str, place: Place) -> tuple[str, str]:
    """Return the cursor's line and the next line that is not blank, if any, both with the suggestion."""
    first, *later = [line.rstrip() for line in lines_with(text, place)]
    return first, next(filter(None, later), "")


def _depths_of_sources(first: str, second: str, place: Place) -> list[str]:
    """Return the indentations of lines like the first that are followed by the second, the nearest line first."""
    pattern = re.compile(rf"^([ \t]*){re.escape(first.strip())}\s*\n{re.escape(second)}[ \t\r]*$", re.MULTILINE)
    texts = (place.above, place.below, *reversed(place.others))
    return [found[1] for text in texts for found in reversed([*pattern.finditer(text)])]


def _moved(text: str, said: str, own: str) -> str:
    """Replace the indentation of the further lines."""
    first, *later = text.split("\n")
    moved = [own + line[len(said) :] if line.strip() and line.startswith(said) else line for line in later]
    return "\n".join([first, *moved])
