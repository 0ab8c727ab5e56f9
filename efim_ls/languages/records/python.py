"""Python, and Cython where it is written alike."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator
from keyword import kwlist, softkwlist

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    CallForm,
    Grammar,
    Import,
    ImportForm,
    Indented,
    Language,
    LanguageWords,
    NameNodes,
    TextOf,
)  # fmt: skip

_TYPES = (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, property, set, slice, str, tuple, type)
_HANDLERS = frozenset({"except_clause", "except_group_clause", "finally_clause"})


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    names = [_unaliased(each, text) for each in node.children_by_field_name("name")]
    if node.type == "import_from_statement":
        yield Import(text(node.child_by_field_name("module_name")), tuple(names or ["*"]))
    else:
        yield from (Import(each, ()) for each in names)


def _unaliased(node: Node, text: TextOf) -> str:
    return text(node.child_by_field_name("name") if node.type == "aliased_import" else node)


def _reads(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as for an unknown escape
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _import_line(module: str, name: str, _: re.Match[str] | None) -> str:
    return f"from {module} import {name}"


PYTHON = Language(
    "python",
    "Python",
    ".py .pyi .pyw sconscript sconstruct",
    also="python-base, python3",
    telling=r"^\s*(def .*[:(,]$|class \w+.*:$|from [\w.]+ import |import [\w.]+$|elif .*:$|if __name__ ==)",
    is_code=True,
    comment="#",
    triple_quotes=True,
    words=LanguageWords(
        keywords=frozenset(kwlist),
        known=frozenset(
            {*dir(builtins), *kwlist, *softkwlist, "self", "cls", *(name for each in _TYPES for name in dir(each))}
        ),
        built_in=frozenset(dir(builtins)),
        new_name=re.compile(r"\b(?:def|class)\s+\Z"),
        defines=re.compile(r"\b(?:def|class|lambda|for|as|global|nonlocal)\b[^:]*\Z"),
        defined=re.compile(r"\s*(?::|=(?!=)|,[\w\s,]*=(?!=))"),
        lists_words=True,
        lists_members=True,
    ),
    # Parsed like other languages rather than with `ast`: that takes twice as long and does not read broken code.
    grammar=Grammar(
        "tree_sitter_python:language",
        kinds={
            "assignment": "variable", "class_definition": "class", "function_definition": "function",
            "type_alias_statement": "type",
        },
        entered=frozenset({
            "block", "class_definition", "decorated_definition", "elif_clause", "else_clause", "except_clause",
            "expression_statement", "finally_clause", "if_statement", "module", "try_statement", "with_statement",
        }),
        imports=frozenset({"import_from_statement", "import_statement"}),
        imported=_imported,
        functions=frozenset({"function_definition", "lambda"}),
        classes=frozenset({"class_definition"}),
        binding=frozenset({
            ("assignment", "left"), ("as_pattern", "alias"), ("for_in_clause", "left"), ("for_statement", "left"),
            ("named_expression", "name"),
        }),
    ),
    names=NameNodes(
        binding=frozenset({
            "aliased_import", "as_pattern_target", "dictionary_splat_pattern", "dotted_name", "global_statement",
            "keyword_pattern", "lambda_parameters", "list_pattern", "list_splat_pattern", "nonlocal_statement",
            "parameters", "pattern_list", "splat_pattern", "tuple_pattern", "type_parameter", "typed_parameter",
        }),
        binding_fields={
            "assignment": "left", "attribute": "attribute", "class_definition": "name", "default_parameter": "name",
            "for_in_clause": "left", "for_statement": "left", "function_definition": "name",
            "keyword_argument": "name", "named_expression": "name", "type_alias_statement": "left",
            "typed_default_parameter": "name",
        },
        imports=frozenset({"import_statement", "import_from_statement"}),
        parts_of_imports=frozenset({"aliased_import", "dotted_name"}),
        wrappers=frozenset({"tuple", "type"}),  # as in `with a as (b, c)` and `def first[T]()`
        known=frozenset({
            *dir(builtins), *kwlist, *softkwlist, "__class__", "__file__", "__path__", "cls", "self",
        }),
    ),
    indented=Indented(
        header=re.compile(
            r"\s*(?:async|case|class|def|elif|else|except|finally|for|if|match|try|while|with)\b.*:"
        ),
        scope="class _:",
        handlers=_HANDLERS,
        clauses=_HANDLERS | {"elif_clause", "else_clause"},
        tried="try_statement",
    ),
    reads=_reads,
    definition=re.compile(r"(?P<indent>[ \t]*)(?:(?:async\s+)?def|class)\b\s*(?P<name>[\w$]+)"),
    imports=ImportForm(
        re.compile(
            r"^(?:from[ \t]+(?P<module>[.\w]+)[ \t]+import[ \t]+"
            r"(?:\((?P<wrapped>[^()#]*)\)|(?P<names>\w[^\r\n(#;\\]*))"
            r"|import[ \t]+(?P<plain>[.\w]+).*)",
            re.MULTILINE,
        ),
        _import_line,
        "packages",
        apart=True,
        behind_modules=".",
        bound=re.compile(r"[ \t]*:?=(?!=)"),
    ),
    reads_modules=True,
    calls=CallForm(
        skipped=r'"""[\s\S]*?"""|' + r"'''[\s\S]*?'''|" + r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*",
        by_keyword=True,
        in_classes=True,
    ),
)  # fmt: skip
CYTHON = Language(
    "cython",
    "Cython",
    ".pyx .pxd",
    family="python",
    is_code=True,
    comment="#",
    words=PYTHON.words,
    imports=PYTHON.imports,
    calls=PYTHON.calls,
)
# A file that nobody gives a language: its words are taken for Python's.
UNNAMED = Language("", "", triple_quotes=True, words=PYTHON.words)
LANGUAGES = (PYTHON, CYTHON)
