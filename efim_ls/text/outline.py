"""What a file defines and imports, read off its syntax tree; broken code gives what is still recognized.

Python is parsed as the other languages are, with tree-sitter: it takes half of the time that `ast` does and reads
broken code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node, Parser, Tree

from efim_ls.text.grammars import grammar_of

LONGEST_SIGNATURE = 200  # characters
# Characters that are parsed at once, in about 2 ms, while no other thread has the interpreter. The parser could also
# ask for its text in parts, but never frees them.
PARSED_AT_ONCE = 16_384
# Between a blank line and a line without indentation.
TOP_LEVEL = re.compile(r"(?:(?<=\n\n)|(?<=\n\r\n))(?=[@\w#/\"'(])")

_FUNCTION = {"function_definition": "function"}  # kinds by type of node, as in Python's grammar
_SCRIPT = {
    "abstract_class_declaration": "class", "abstract_method_signature": "method", "class_declaration": "class",
    "enum_declaration": "enum", "field_definition": "field", "function_declaration": "function",
    "function_signature": "function", "generator_function_declaration": "function",
    "interface_declaration": "interface", "internal_module": "module", "method_definition": "method",
    "method_signature": "method", "module": "module", "property_signature": "field",
    "public_field_definition": "field", "type_alias_declaration": "type", "variable_declarator": "variable",
}  # fmt: skip
_KINDS = {
    "python": {"assignment": "variable", "class_definition": "class", "type_alias_statement": "type"} | _FUNCTION,
    "javascript": _SCRIPT,
    "go": {
        "const_spec": "constant", "field_declaration": "field", "function_declaration": "function",
        "method_declaration": "method", "method_elem": "method", "type_alias": "type", "type_spec": "type",
        "var_spec": "variable",
    },
    "rust": {
        "const_item": "constant", "enum_item": "enum", "enum_variant": "constant", "field_declaration": "field",
        "function_item": "function", "function_signature_item": "function", "macro_definition": "macro",
        "mod_item": "module", "static_item": "constant", "struct_item": "struct", "trait_item": "interface",
        "type_item": "type", "union_item": "struct",
    },
}  # fmt: skip
# Nodes whose children are definitions too, or hold some; what stands in functions is theirs alone.
_ENTERED = {
    "python": frozenset({
        "block", "class_definition", "decorated_definition", "elif_clause", "else_clause", "except_clause",
        "expression_statement", "finally_clause", "if_statement", "module", "try_statement", "with_statement",
    }),
    "javascript": frozenset({
        "abstract_class_declaration", "ambient_declaration", "class_body", "class_declaration", "export_statement",
        "expression_statement", "interface_body", "interface_declaration", "internal_module",
        "lexical_declaration", "module", "object_type", "program", "statement_block", "variable_declaration",
    }),
    "go": frozenset({
        "const_declaration", "field_declaration_list", "interface_type", "source_file", "struct_type",
        "type_declaration", "type_spec", "var_declaration", "var_spec_list",
    }),
    "rust": frozenset({
        "declaration_list", "enum_item", "enum_variant_list", "field_declaration_list", "foreign_mod_item",
        "impl_item", "mod_item", "source_file", "struct_item", "trait_item", "union_item",
    }),
}  # fmt: skip
_GRAMMARS_ALIKE = {"javascriptreact": "javascript", "typescript": "javascript", "typescriptreact": "javascript"}
_IMPORTS = frozenset({
    "export_statement", "extern_crate_declaration", "import_declaration", "import_from_statement",
    "import_statement", "use_declaration",
})  # fmt: skip
_NAMES = frozenset({
    "field_identifier", "identifier", "private_property_identifier", "property_identifier", "type",
    "type_identifier",
})  # fmt: skip
_METHODS_IN = frozenset({"class_definition", "impl_item", "trait_item"})
MEMBERS = frozenset({"method", "field"})  # kinds that belong to a type


class Definition(NamedTuple):
    """A name that a file defines outside functions: its kind, its line (from 0), and its head on one line."""

    name: str
    kind: str
    line: int
    signature: str


class Import(NamedTuple):
    """What a file imports: a module as it is written, and names from it, if any are written."""

    module: str
    names: tuple[str, ...]


class Importable(NamedTuple):
    """What a file could import: a name from a module as it would write it, or without a name the module itself.

    `importers` are the other files that import the same.
    """

    module: str
    name: str
    importers: int


class Outline(NamedTuple):
    """What a file defines and imports, in the order of its text."""

    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()


def outline(text: str, language: str) -> Outline:
    """Return the outline of a text, empty in a language without a grammar; never raises because of the text."""
    grammar = grammar_of(language)
    if grammar is None:
        return Outline()
    reader = _Reader(_GRAMMARS_ALIKE.get(language, language))
    parser, line = Parser(grammar), 0
    for piece in _pieces(text):
        code = piece.encode("utf-8", "replace")
        reader.read(code, parser.parse(code), line)
        line += piece.count("\n")
    return Outline(tuple(reader.definitions), tuple(reader.imports))


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text before lines that begin a statement at the top level."""
    start = 0
    while len(text) - start > PARSED_AT_ONCE and (cut := TOP_LEVEL.search(text, start + PARSED_AT_ONCE)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


class _Reader:
    """Collects the definitions and imports of one file's trees."""

    def __init__(self, language: str) -> None:
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self._kinds, self._entered = _KINDS[language], _ENTERED[language]
        self._code, self._line = b"", 0

    def read(self, code: bytes, tree: Tree, line: int) -> None:
        """Read the tree of code that begins on a line, in its order; not recursive, since code may nest deeply."""
        self._code, self._line = code, line
        waiting = [(tree.root_node, False)]
        while waiting:
            node, in_class = waiting.pop()
            kind = self._kinds.get(node.type)
            if kind and node.is_named:
                self._define(node, "method" if in_class and kind == "function" else kind)
            if node.type in _IMPORTS:
                self.imports += self._imported(node)
            if node.type in self._entered or node.is_error:
                inside = node.type in _METHODS_IN or (in_class and node.type not in ("module", "mod_item"))
                waiting += ((child, inside) for child in reversed(node.named_children))

    def _define(self, node: Node, kind: str) -> None:
        field = "left" if node.type in ("assignment", "type_alias_statement") else "name"
        names = [each for each in node.children_by_field_name(field) if each.type in _NAMES]
        for name in names:
            line = self._line + name.start_point.row
            self.definitions.append(Definition(self._text(name), kind, line, self._signature(node)))
        if node.type == "assignment" and (right := node.child_by_field_name("right")) and right.type == "assignment":
            self._define(right, kind)

    def _signature(self, node: Node) -> str:
        body = node.child_by_field_name("body")
        end = body.start_byte if body else node.end_byte
        head = self._code[node.start_byte : min(end, node.start_byte + 4 * LONGEST_SIGNATURE)]
        return " ".join(head.decode("utf-8", "ignore").split())[:LONGEST_SIGNATURE].rstrip(" {:")

    def _imported(self, node: Node) -> Iterator[Import]:
        if node.type in ("use_declaration", "extern_crate_declaration"):
            argument = node.child_by_field_name("argument") or node.child_by_field_name("name")
            yield Import(" ".join(self._text(argument).split()), ())
        elif node.type == "import_declaration":
            for spec in _all_within(node, "import_spec"):
                yield Import(self._text(spec.child_by_field_name("path")).strip('"`'), ())
        elif node.type == "import_from_statement":
            names = [self._unaliased(each) for each in node.children_by_field_name("name")]
            yield Import(self._text(node.child_by_field_name("module_name")), tuple(names or ["*"]))
        elif source := node.child_by_field_name("source"):
            specifiers = _all_within(node, "import_specifier", "export_specifier")
            names = tuple(self._text(each.child_by_field_name("name")) for each in specifiers)
            yield Import(self._text(source).strip("\"'"), names)
        else:
            for name in node.children_by_field_name("name"):
                yield Import(self._unaliased(name), ())

    def _unaliased(self, node: Node) -> str:
        named = node.child_by_field_name("name") if node.type == "aliased_import" else node
        return self._text(named)

    def _text(self, node: Node | None) -> str:
        return self._code[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""


def _all_within(node: Node, *types: str) -> list[Node]:
    """Return the nodes of some types anywhere in a node, in the order of the text."""
    found, waiting = list[Node](), [node]
    while waiting:
        each = waiting.pop()
        if each.type in types:
            found.append(each)
        else:
            waiting += reversed(each.named_children)
    return found
