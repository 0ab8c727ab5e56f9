"""Go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    Grammar,
    Import,
    ImportForm,
    Language,
    LanguageWords,
    TextOf,
    split,
    within,
)

_KEYWORDS = """
    break case chan const continue default defer else fallthrough for func go goto if import interface map
    package range return select struct switch type var
"""
_NAMES = """
    any append bool byte cap clear close comparable complex complex64 complex128 copy delete error false float32
    float64 imag init int int8 int16 int32 int64 iota len main make max min new nil panic print println real
    recover rune string true uint uint8 uint16 uint32 uint64 uintptr
"""


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    for spec in within(node, ("import_spec",)):
        yield Import(text(spec.child_by_field_name("path")).strip('"`'), ())


def _import_line(module: str, _: str, last: re.Match[str] | None) -> str:
    return f'{last["indent"] if last else "import "}"{module}"'


GO = Language(
    "go",
    "Go",
    ".go",
    also="golang",
    wheel="efim_ls_go",
    telling=r"^package \w+$|^func |^\s+\w+(, \w+)? := |^\s*if err != nil",
    is_code=True,
    declares_members=True,
    single_quotes="characters",
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _NAMES),
        new_name=re.compile(r"\b(?:const|func(?:\s*\([^)]*\))?|package|type|var)\s+\Z"),
        defines=re.compile(r"\b(?:const|for|func|package|type|var)\b[^=]*\Z|\bimport\b"),
        defined=re.compile(r"\s*(?::=|,[\w\s,]*:=|\s[\w.*\[\]]+)"),
        lists_words=True,
    ),
    grammar=Grammar(
        "tree_sitter_go:language",
        kinds={
            "const_spec": "constant", "field_declaration": "field", "function_declaration": "function",
            "method_declaration": "method", "method_elem": "method", "type_alias": "type", "type_spec": "type",
            "var_spec": "variable",
        },
        entered=frozenset({
            "const_declaration", "field_declaration_list", "interface_type", "source_file", "struct_type",
            "type_declaration", "type_spec", "var_declaration", "var_spec_list",
        }),
        imports=frozenset({"import_declaration"}),
        imported=_imported,
        functions=frozenset({"func_literal", "function_declaration", "method_declaration"}),
        binding=frozenset({
            ("const_spec", "name"), ("parameter_declaration", "name"), ("range_clause", "left"),
            ("short_var_declaration", "left"), ("var_spec", "name"),
        }),
    ),
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:func\b(?:\s*(?P<owner>\([^)]*\)))?|type\b)\s*(?P<name>[\w$]+)"
    ),
    imports=ImportForm(
        re.compile(r'^(?P<indent>[ \t]+|import[ \t]+)(?:[\w.]+[ \t]+)?"(?P<module>[^"\n]+)"', re.MULTILINE),
        _import_line,
        "package paths",
        block=re.compile(r"^import[ \t]*(?:\([^()]*\)|[^\n(]*$)", re.MULTILINE),
    ),
)  # fmt: skip
LANGUAGES = (GO,)
