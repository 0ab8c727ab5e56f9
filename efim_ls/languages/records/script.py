"""JavaScript and TypeScript, with their dialects that have tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

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
    within,
)  # fmt: skip

_KEYWORDS = """
    abstract any as asserts async await bigint boolean break case catch class const constructor continue
    debugger declare default delete do else enum export extends false finally for from function get if
    implements import in infer instanceof interface is keyof let namespace never new null number object of
    override package private protected public readonly require return satisfies set static string super switch
    symbol this throw true try type typeof undefined unique unknown using var void while with yield
"""
_NAMES = """
    AbortController AbortSignal Array ArrayBuffer Awaited BigInt Blob Boolean Buffer Capitalize DataView Date
    Document Element Error Event EventTarget Exclude Extract File FormData Function Headers HTMLElement Infinity
    InstanceType Int8Array Int32Array Intl Iterable IterableIterator Iterator JSON JSX Map Math NaN Node
    NonNullable Number Object Omit Parameters Partial Pick Promise PromiseLike Proxy Range RangeError React
    ReactNode Readonly ReadonlyArray ReadonlyMap ReadonlySet Record ReferenceError Reflect RegExp Request
    Required Response ReturnType Set String Symbol SyntaxError TextDecoder TextEncoder TypeError URL
    URLSearchParams Uint8Array Uint16Array Uint32Array Uppercase WeakMap WeakRef WeakSet Window Worker __dirname
    __filename afterAll afterEach alert arguments beforeAll beforeEach clearInterval clearTimeout console crypto
    decodeURIComponent describe document encodeURIComponent expect exports fetch global globalThis isFinite
    isNaN it jest localStorage location module navigator parseFloat parseInt performance process props prototype
    queueMicrotask requestAnimationFrame self sessionStorage setImmediate setInterval setTimeout structuredClone
    test vi window
"""
# A function counts with the body that it has and overloads lack; so does a method, which no word announces.
_DEFINITION = r"""(?P<indent>[ \t]*)(?:
    (?P<function>(?:export\s+)?(?:default\s+)?(?:async\s+)?function\b\s*\*?\s*)
    | (?P<declared>(?:export\s+)?(?:default\s+)?
        (?:(?:abstract\s+)?class|(?:const\s+)?enum|const(?!\s+enum)|let|interface|type)\s+)
    | (?:(?:public|private|protected|static|override|async)\s+)*(?P<owner>[gs]et\s+)?\*?
        (?!(?:catch|for|function|if|switch|while|with)\b)
)(?P<name>[\w$]+)(?(declared)|(?(function)(?=[^;\n]*\{[ \t]*$)|(?=\([^()'"`;\n]*\)[^();\n]*\{[ \t]*$)))"""


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    if source := node.child_by_field_name("source"):
        specifiers = within(node, ("import_specifier", "export_specifier"))
        names = tuple(text(each.child_by_field_name("name")) for each in specifiers)
        yield Import(text(source).strip("\"'"), names)
    else:
        yield from (Import(text(each), ()) for each in node.children_by_field_name("name"))


def _import_line(module: str, name: str, last: re.Match[str] | None) -> str:
    quote, stop = (last["quote"], last["stop"]) if last else ('"', ";")
    return f"import {{ {name} }} from {quote}{module}{quote}{stop}"


_GRAMMAR = Grammar(
    "tree_sitter_javascript:language",
    kinds={
        "abstract_class_declaration": "class", "abstract_method_signature": "method", "class_declaration": "class",
        "enum_declaration": "enum", "field_definition": "field", "function_declaration": "function",
        "function_signature": "function", "generator_function_declaration": "function",
        "interface_declaration": "interface", "internal_module": "module", "method_definition": "method",
        "method_signature": "method", "module": "module", "property_signature": "field",
        "public_field_definition": "field", "type_alias_declaration": "type", "variable_declarator": "variable",
    },
    entered=frozenset({
        "abstract_class_declaration", "ambient_declaration", "class_body", "class_declaration", "export_statement",
        "expression_statement", "interface_body", "interface_declaration", "internal_module",
        "lexical_declaration", "module", "object_type", "program", "statement_block", "variable_declaration",
    }),
    imports=frozenset({"export_statement", "import_statement"}),
    imported=_imported,
    functions=frozenset({
        "arrow_function", "function_declaration", "function_expression", "generator_function_declaration",
        "method_definition",
    }),
    binding=frozenset({("catch_clause", "parameter"), ("for_in_statement", "left"), ("variable_declarator", "name")}),
)  # fmt: skip
JAVASCRIPT = Language(
    "javascript",
    "JavaScript",
    ".cjs .js .mjs",
    also="js, js2, js3, ecmascript 6",
    tags="javascriptreact",
    telling=r"^\s*(const|let|var) .*=|=> \{$|\bfunction\b.*\{$|^import .* from ['\"]|^export |\brequire\(",
    is_code=True,
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _NAMES),
        new_name=re.compile(r"\b(?:class|const|enum|function\s*\*?|interface|let|namespace|type|var)\s+\Z"),
        defines=re.compile(
            r"\b(?:as|catch|class|const|enum|for|function|import|interface|let|namespace|type|var)\b[^=;]*\Z"
        ),
        defined=re.compile(r"\s*(?:\??:|=(?!=)|,[\w\s,]*\)?\s*=|\)?\s*=>|\([^()]*\)[^();]*\{)"),
        lists_words=True,
    ),
    grammar=_GRAMMAR,
    definition=re.compile(_DEFINITION, re.MULTILINE | re.VERBOSE),
    imports=ImportForm(
        re.compile(
            r"^import[ \t]+(?:(?:\w+[ \t]*,[ \t]*)?\{(?P<names>[^{}]*)\}[ \t]*from[ \t]*"
            r"|[^'\"\n{}]*(?:\{[^{}]*\})?[^'\"\n{}]*)"
            r"(?P<quote>['\"])(?P<module>[^'\"\n]+)(?P=quote)(?P<stop>;?)",
            re.MULTILINE,
        ),
        _import_line,
        "files",
    ),
    calls=CallForm(skipped=r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|//[^\n]*|/\*[\s\S]*?\*/"),
)
JAVASCRIPT_JSX = replace(
    JAVASCRIPT,
    id="javascriptreact",
    name="JavaScript JSX",
    endings=".jsx",
    also="jsx, js-jsx, rjsx",
    family="javascript",
    tags="",
    telling="",
)
TYPESCRIPT = replace(
    JAVASCRIPT,
    id="typescript",
    name="TypeScript",
    endings=".cts .mts .ts",
    also="ts",
    family="javascript",
    tags="typescriptreact",
    telling=r"^\s*(export )?(interface|type|enum) \w+|\w\??: (string|number|boolean)\b|^import type ",
    declares_members=True,
    grammar=replace(_GRAMMAR, source="tree_sitter_typescript:language_typescript"),
)
TYPESCRIPT_JSX = replace(
    TYPESCRIPT,
    id="typescriptreact",
    name="TypeScript JSX",
    endings=".tsx",
    also="tsx",
    tags="",
    telling="",
    grammar=replace(_GRAMMAR, source="tree_sitter_typescript:language_tsx"),
)
LANGUAGES = (JAVASCRIPT, JAVASCRIPT_JSX, TYPESCRIPT, TYPESCRIPT_JSX)
