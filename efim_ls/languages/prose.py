"""Prose, logs and messages to a version control system, as VS Code, Neovim, Helix and Emacs name them."""

from __future__ import annotations

from efim_ls.languages.language import Language

_NAMED = (
    ("plaintext", "plain text", ".txt"),
    ("text", "", ""),
    ("markdown", "Markdown", ".md"),
    ("restructuredtext", "reStructuredText", ".rst"),
    ("rst", "", ""),
    ("asciidoc", "AsciiDoc", ".adoc .asciidoc"),
    ("org", "Org", ".org"),
    ("mail", "", ""),
    ("help", "", ""),
    ("log", "logs", ".log"),
    ("scminput", "", ""),
    ("git-commit", "commit messages", "commit_editmsg merge_msg squash_msg tag_editmsg"),
    ("gitcommit", "", ""),
    ("git-rebase", "rebase lists", "git-rebase-todo"),
    ("gitrebase", "", ""),
    ("hgcommit", "", ""),
    ("jjdescription", "", ""),
)
LANGUAGES = tuple(Language(id, name or id, endings, is_prose=True) for id, name, endings in _NAMED)
