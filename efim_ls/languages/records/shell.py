"""Shell scripts, as POSIX and Bash have them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    Grammar,
    Import,
    Language,
    LanguageWords,
    TextOf,
    WordBlocks,
    declared,
    split,
)

_KEYWORDS = """
    break case cd continue declare do done echo elif else esac eval exec exit export false fi for function getopts if
    in local printf read readonly return select set shift source test then time trap true type typeset ulimit umask
    unset until wait while
"""


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    argument = node.child_by_field_name("argument")
    if text(node.child_by_field_name("name")) in (".", "source") and argument is not None:
        yield Import(text(argument).strip("\"'"), ())


# Words of blocks stand where a command begins.
_COMMAND = r"(?: (?m:^)[ \t]* | (?<=[;&|!(]) | (?<=[;&|!(][ ]) | (?<=\bdo[ ]) | (?<=\bthen[ ]) | (?<=\belse[ ]) )"
_WORDS = rf"""
    {_COMMAND} (?P<opens> if | case | do )(?=[\s;]|\Z) | {_COMMAND} (?P<closes> fi | done | esac )(?=[\s;&|)<>]|\Z)
"""
# A sign within a word that begins no comment, and the patterns of a `case`, whose bracket closes nothing.
_SKIPPED = r"""
    (?<=[^\s;&|()]) \#
    | (?: (?m:^)[ \t]* | ;;&?[ \t]* | (?<=\sin)[ \t]+ ) (?!(?:done|esac|fi)\b) [^\s(){}\#=$;`&] [^()\n\#$;`&]* \)
"""


# Blocks end with words. There are no `imports`: a function may come from the script that sources a file.
SHELL = Language(
    "shellscript",
    "shell scripts",
    ".bash .sh .zsh",
    also="bash, ksh, sh, shell, shell script, zsh",
    wheel="efim_ls_more",
    telling=r"^#!.*sh$|^\s*(fi|done|esac)$|; (then|do)$|^\s*export \w+=|^\s*(if|elif|while) (!|\[|test) "
    r"|^\s*[A-Za-z_]\w*=(\"[^\"]*\"|[$`].*)$|^\s*(cd|echo|exit|local|set|shift|unset) [^=(]*$|^\s*;;$",
    comment="#",
    long_quotes=True,
    skipped=_SKIPPED,
    here_document=re.compile(r"(?<!<)<<-?[ \t]*[\"'\\]?(?P<end>[^\W\d]\w*)(?![^\n]*\)\))"),
    word_blocks=WordBlocks(
        _WORDS, {"case": "esac", "do": "done", "if": "fi"}, clauses=re.compile(r"[ \t]*(?:(?:else|elif)\b|[^()]*\)$)")
    ),
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS),
        new_name=re.compile(r"\b(?:alias|function|local|readonly)\s+\Z"),
    ),
    grammar=Grammar(
        "tree_sitter_bash:language",
        kinds={"function_definition": "function", "variable_assignment": "variable"},
        named=declared,
        entered=frozenset({"declaration_command", "else_clause", "if_statement", "program"}),
        imports=frozenset({"command"}),
        imported=_imported,
        functions=frozenset({"function_definition"}),
    ),
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:function[ \t]+(?=[\w:.-]+[ \t]*[({])|(?=[\w:.-]+[ \t]*\(\)[ \t]*(?:[{(]|$)))"
        r"(?P<name>[\w:.-]+)",
        re.MULTILINE,
    ),
)  # fmt: skip
LANGUAGES = (SHELL,)
