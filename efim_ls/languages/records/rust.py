"""Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    CallForm,
    Grammar,
    Import,
    ImportForm,
    Language,
    LanguageWords,
    TextOf,
    split,
)  # fmt: skip

_KEYWORDS = """
    Self abstract as async await become box break const continue crate do dyn else enum extern false final fn for if
    impl in let loop macro macro_rules match mod move mut override priv pub ref return self static struct super trait
    true try type typeof union unsafe unsized use virtual where while yield
"""
# What needs no `use`: types of the language and names of the prelude.
_BUILT_IN = """
    AsMut AsRef Box Clone Copy Debug Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce
    From FromIterator Hash Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Send Sized Some
    String Sync ToOwned ToString TryFrom TryInto Unpin Vec alloc allow assert assert_eq assert_ne bool cfg char
    column compile_error concat core cfg_attr dbg debug_assert debug_assert_eq debug_assert_ne deny derive doc drop
    env eprint eprintln expect f32 f64 feature file format format_args i128 i16 i32 i64 i8 include include_bytes
    include_str inline isize line macro_use matches module_path must_use non_exhaustive panic print println repr
    should_panic std str stringify test todo u128 u16 u32 u64 u8 unimplemented unreachable usize vec warn write
    writeln
"""


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    argument = node.child_by_field_name("argument") or node.child_by_field_name("name")
    yield Import(" ".join(text(argument).split()), ())


RUST = Language(
    "rust",
    "Rust",
    ".rs",
    also="rustic",
    wheel="efim_ls_more",
    telling=r"^\s*(pub )?(fn|struct|enum|mod|trait) |^\s*impl\b.*\{$|\blet mut |^\s*use \w+::|^\s*#!?\["
    r"|^\s*let [\w(&].* = |&(mut )?self\b",
    is_code=True,
    declares_members=True,
    single_quotes="characters",
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _BUILT_IN),
        built_in=split(_BUILT_IN),
        new_name=re.compile(
            r"\b(?:const|enum|fn|let(?:\s+mut)?|macro_rules!|mod|static(?:\s+mut)?|struct|trait|type|union)\s+\Z"
        ),
    ),
    grammar=Grammar(
        "tree_sitter_rust:language",
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
    # Types, values and macros may have one name. Configurations, as attributes tell them, may define a name again.
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:pub(?:\([^()]*\))?\s+)?(?:(?:async|const|default|unsafe|extern(?:\s+\"\w*\")?)\s+)*"
        r"(?P<owner>const|enum|fn|macro_rules!|mod|static|struct|trait|type|union)\s+(?:mut\s+)?(?P<name>\w+)"
    ),
    decorator="#[",
    imports=ImportForm(
        re.compile(r"^use[ \t]+(?P<module>[\w:]+?)(?:::\{(?P<names>[^{}]*)\}|::(?P<single>\w+));", re.MULTILINE),
        lambda module, name, _: f"use {module}::{name};",
        "crates",
        behind_modules="::",
    ),
    calls=CallForm(by_path=True),
)  # fmt: skip
LANGUAGES = (RUST,)
