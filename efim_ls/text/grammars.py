"""Grammars of languages, loaded when the first text in one is parsed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name

from tree_sitter import Language

from efim_ls.languages.forms.language import Grammar, MixedGrammar
from efim_ls.languages.table import LANGUAGES


@cache
def grammar_of(language: str) -> Language | None:
    """Return the grammar of a language by LSP's name for it, None if there is none."""
    grammar = LANGUAGES[language].grammar
    return loaded(grammar) if grammar else None


def loaded(grammar: Grammar | MixedGrammar) -> Language:
    """Return a grammar, whose module is imported for it."""
    make: Callable[[], object] = resolve_name(grammar.source)
    return Language(make())
