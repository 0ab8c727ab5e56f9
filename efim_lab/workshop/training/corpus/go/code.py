"""Cleans the text of Go files."""

from __future__ import annotations

from efim_lab.workshop.training.corpus.comments import clean_comments


def clean(text: str) -> str:
    r"""Remove comments for tools, notices and names of authors from a file whose lines end with \n."""
    return clean_comments(text, "go")


def snippets(text: str) -> list[str]:
    """Return nothing: Go's examples are functions in files of tests."""
    return []
