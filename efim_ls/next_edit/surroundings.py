"""Whether tokens stand in a string or a comment, as far as their line tells."""

from __future__ import annotations

from collections.abc import Sequence

QUOTES = "\"'`"


def in_comment(left: Sequence[str], language: str) -> bool:
    """Return whether a comment begins among the tokens before a place, or its line is one of a block's."""
    line = "".join(left)
    mark = "#" if language in ("python", "shellscript", "yaml", "toml", "ruby") else "//"
    return mark in line or line.lstrip().startswith(("/*", "* "))


def in_string(left: Sequence[str]) -> bool:
    """Return whether a quote is open after the tokens before a place."""
    return any(left.count(quote) % 2 for quote in QUOTES)
