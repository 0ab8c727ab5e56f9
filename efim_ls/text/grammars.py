"""Grammars of languages, loaded when the first text in one is parsed."""

from __future__ import annotations

from functools import cache

from tree_sitter import Language

from efim_ls.languages.table import LANGUAGES


@cache
def grammar_of(language: str) -> Language | None:
    """Return the grammar of a language by LSP's name for it, None if there is none."""
    grammar = LANGUAGES[language].grammar
    return Language(grammar.load()) if grammar else None
