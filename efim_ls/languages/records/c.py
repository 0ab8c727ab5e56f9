"""C and C++, and the dialects of these that are parsed as C++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

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
    within,
)

_KEYWORDS = """
    auto bool break case char const continue default do double else enum extern false float for goto if inline int
    long register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile
    while
"""
_KEYWORDS_OF_CPP = """
    alignas alignof and asm catch char16_t char32_t char8_t class co_await co_return co_yield concept const_cast
    consteval constexpr constinit decltype delete dynamic_cast explicit export final friend mutable namespace new
    noexcept not nullptr operator or override private protected public reinterpret_cast requires static_assert
    static_cast template this thread_local throw try typeid typename using virtual wchar_t xor
"""


_TELLING = r"^\s*#\s*(include\b.*\.h[>\"]$|define |ifn?def )|^\s*(static |const )*(int|void|char|size_t)\b.*[;{(]$"


def _named(node: Node) -> Iterator[Node]:
    """Yield the names of a definition, of types that have a body, and of what a declaration calls a function.

    A macro without a value is a guard.
    """
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return
    if node.type == "preproc_def" and node.child_by_field_name("value") is None:
        return
    if node.type != "declaration" or within(node, ("function_declarator",)):
        yield from declared(node)


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    yield Import(text(node.child_by_field_name("path")).strip('"<>'), ())


# C++'s, for C as well: the names of headers do not tell the two apart.
_GRAMMAR = Grammar(
    "tree_sitter_cpp:language",
    kinds={
        "alias_declaration": "type", "class_specifier": "class", "concept_definition": "type",
        "declaration": "function", "enum_specifier": "enum", "enumerator": "constant", "field_declaration": "field",
        "function_definition": "function", "namespace_definition": "module", "preproc_def": "constant",
        "preproc_function_def": "macro", "struct_specifier": "struct", "type_definition": "type",
        "union_specifier": "struct",
    },
    named=_named,
    entered=frozenset({
        "class_specifier", "declaration", "declaration_list", "enum_specifier", "enumerator_list",
        "field_declaration_list", "linkage_specification", "namespace_definition", "preproc_elif", "preproc_else",
        "preproc_if", "preproc_ifdef", "struct_specifier", "template_declaration", "translation_unit",
        "type_definition", "union_specifier",
    }),
    imports=frozenset({"preproc_include"}),
    imported=_imported,
    functions=frozenset({"function_definition", "lambda_expression"}),
    classes=frozenset({"class_specifier", "struct_specifier", "union_specifier"}),
    binding=frozenset({
        ("array_declarator", "declarator"), ("declaration", "declarator"), ("for_range_loop", "declarator"),
        ("init_declarator", "declarator"), ("optional_parameter_declaration", "declarator"),
        ("parameter_declaration", "declarator"), ("pointer_declarator", "declarator"),
    }),
)  # fmt: skip
# Neither `definition`, as branches of the preprocessor and overloads define a name again, nor `imports`: the build
# says which header has a name, and by which path. Nor can anybody say that no header has a word.
C = Language(
    "c",
    "C",
    ".c .h",
    wheel="efim_ls_more",
    telling=_TELLING,
    is_code=True,
    declares_members=True,
    single_quotes="characters",
    closed_types=True,
    expanded=re.compile(rb"\b(?:[A-Z_][A-Z\d_]{2,}|_[A-Z_]\w+|signals|slots)\b"),
    outdented=re.compile(r"[ \t]*(?:#|(?!default\b)\w+[ \t]*:(?!:)|(?:private|protected|public)\b[\w \t]*:)"),
    word_blocks=WordBlocks(
        r"(?m:^)[ \t]*\#[ \t]*(?: (?P<opens> if(?:n?def)? ) | (?P<closes> endif ) )\b",
        dict.fromkeys(("if", "ifdef", "ifndef"), "endif"),
        line="#{}",
    ),
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + "NULL stderr stdin stdout"),
        new_name=re.compile(r"\b(?:enum|struct|union)\s+\Z|^\s*#\s*define\s+\Z"),
    ),
    grammar=_GRAMMAR,
)
CPP = replace(
    C,
    id="cpp",
    name="C++",
    endings=".cc .cpp .cxx .hh .hpp",
    family="c",
    telling=rf"{_TELLING}|^\s*#include <\w+>$|\bstd::|^\s*template ?<|^\s*namespace \w+ \{{"
    r"|^\s*(public|private|protected):$|^class [\w ]+(;| : .*)$|^[\w<>,*& ]+ \w+::~?\w+\(",
    words=LanguageWords(
        keywords=split(_KEYWORDS + _KEYWORDS_OF_CPP),
        known=split(_KEYWORDS + _KEYWORDS_OF_CPP + "NULL std"),
        new_name=re.compile(
            r"\b(?:class|concept|enum(?:\s+class)?|namespace|struct|typename|union|using)\s+\Z"
            r"|^\s*#\s*define\s+\Z"
        ),
    ),
)
LANGUAGES = (C, CPP)
