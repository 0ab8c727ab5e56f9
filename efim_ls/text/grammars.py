"""The grammars that are installed, by LSP's names of languages.

Those of C and C++ are left out: a parser that does not know the macros finds errors in code that is right.
"""

from __future__ import annotations

from functools import cache

import tree_sitter_go
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language

_GRAMMARS = {
    "go": tree_sitter_go.language,
    "javascript": tree_sitter_javascript.language,
    "javascriptreact": tree_sitter_javascript.language,
    "python": tree_sitter_python.language,
    "rust": tree_sitter_rust.language,
    "typescript": tree_sitter_typescript.language_typescript,
    "typescriptreact": tree_sitter_typescript.language_tsx,
}


@cache
def grammar_of(language: str) -> Language | None:
    """Return the grammar of a language by LSP's name for it, None if there is none."""
    make = _GRAMMARS.get(language)
    return Language(make()) if make else None
