"""Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.records.language import CallForm, Grammar, Import, ImportForm, Language, TextOf


def _load() -> object:
    import tree_sitter_rust

    return tree_sitter_rust.language()


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    argument = node.child_by_field_name("argument") or node.child_by_field_name("name")
    yield Import(" ".join(text(argument).split()), ())


def _import_line(module: str, name: str, _: re.Match[str] | None) -> str:
    return f"use {module}::{name};"


RUST = Language(
    "rust",
    "Rust",
    ".rs",
    telling=r"^\s*(pub )?(fn|struct|enum|mod|trait) |^\s*impl\b.*\{$|\blet mut |^\s*use \w+::|^#\[",
    is_code=True,
    single_quotes="characters",
    grammar=Grammar(
        _load,
        kinds={
            "const_item": "constant", "enum_item": "enum", "enum_variant": "constant", "field_declaration": "field",
            "function_item": "function", "function_signature_item": "function", "macro_definition": "macro",
            "mod_item": "module", "static_item": "constant", "struct_item": "struct", "trait_item": "interface",
            "type_item": "type", "union_item": "struct",
        },
        entered=frozenset({
            "declaration_list", "enum_item", "enum_variant_list", "field_declaration_list", "foreign_mod_item",
            "impl_item", "mod_item", "source_file", "struct_item", "trait_item", "union_item",
        }),
        imports=frozenset({"extern_crate_declaration", "use_declaration"}),
        imported=_imported,
        functions=frozenset({"closure_expression", "function_item"}),
        classes=frozenset({"impl_item", "trait_item"}),
        binding=frozenset({
            ("for_expression", "pattern"), ("let_condition", "pattern"), ("let_declaration", "pattern"),
            ("match_arm", "pattern"),
        }),
    ),
    imports=ImportForm(
        re.compile(r"^use[ \t]+(?P<module>[\w:]+?)(?:::\{(?P<names>[^{}]*)\}|::(?P<single>\w+));", re.MULTILINE),
        _import_line,
        "crates",
        behind_modules="::",
    ),
    calls=CallForm(by_path=True),
)  # fmt: skip
LANGUAGES = (RUST,)
