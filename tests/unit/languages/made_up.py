"""A language that nobody writes, as the next one would be added: one file, and one row of `MODULES`.

It reads like Python with Ruby's words: `make` begins a function, `take name from module` an import, `--` a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node

from efim_ls.languages.forms.language import Import, ImportForm, Language, LanguageWords, TextOf, within
from efim_ls.languages.records.python import PYTHON


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    yield Import(text(node.child_by_field_name("name")), tuple(text(each) for each in within(node, ("identifier",))))


def _import_line(module: str, name: str, _: re.Match[str] | None) -> str:
    return f"take {name} from {module}"


assert PYTHON.grammar is not None
LANGUAGES = (
    Language(
        "madeup",
        "Made Up",
        ".made madefile",
        telling=r"^make \w+\(",
        is_code=True,
        comment="--",
        words=LanguageWords(
            keywords=frozenset({"make", "take"}),
            known=frozenset({"make", "take", "show"}),
            built_in=frozenset({"show"}),
            new_name=re.compile(r"\bmake\s+\Z"),
            lists_words=True,
        ),
        grammar=replace(PYTHON.grammar, imported=_imported),
        definition=re.compile(r"(?P<indent>[ \t]*)make\b\s*(?P<name>\w+)"),
        imports=ImportForm(
            re.compile(r"^take[ \t]+(?P<names>[\w, ]+?)[ \t]+from[ \t]+(?P<module>\w+)", re.MULTILINE),
            _import_line,
            "files",
        ),
    ),
)
