"""What a file defines and imports, read off its syntax tree; broken code gives the recognized part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node, Parser, Tree

from efim_ls.languages.forms.language import Grammar, Import
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.grammars import grammar_of

LONGEST_SIGNATURE = 200  # characters
# Characters that are parsed at once, in about 2 ms, while no other thread has the interpreter. The parser could also
# ask for its text in parts, but never frees them.
PARSED_AT_ONCE = 16_384
# Between a blank line and a line without indentation.
TOP_LEVEL = re.compile(r"(?:(?<=\n\n)|(?<=\n\r\n))(?=[@\w#/\"'(])")

_NAMES = frozenset({
    "field_identifier", "identifier", "private_property_identifier", "property_identifier", "type",
    "type_identifier",
})  # fmt: skip
MEMBERS = frozenset({"method", "field"})  # kinds that belong to a type
TYPES = frozenset({"class", "enum", "interface", "struct", "module"})  # kinds that have members


class Definition(NamedTuple):
    """A name that a file defines outside functions: its kind, its line (from 0), and its head on one line."""

    name: str
    kind: str
    line: int
    signature: str


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
    grammar, nodes = grammar_of(language), LANGUAGES[language].grammar
    if grammar is None or nodes is None:
        return Outline()
    reader = _Reader(nodes)
    parser, line = Parser(grammar), 0
    for piece in _pieces(text):
        code = piece.encode("utf-8", "replace")
        reader.read(code, parser.parse(code), line)
        line += piece.count("\n")
    return Outline(tuple(reader.definitions), tuple(reader.imports))


def with_owners(outline: Outline) -> Iterator[tuple[Definition, Definition | None]]:
    """Yield each definition with the type that it is a member of: the last one above it, as outlines tell no more.

    That is None if it is no member or names its type itself, as methods do in Go.
    """
    owner = None
    for each in outline.definitions:
        is_member = each.kind in MEMBERS and not each.signature.startswith("func ")
        yield each, owner if is_member else None
        owner = each if each.kind in TYPES else owner


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text before lines that begin a statement at the top level."""
    start = 0
    while len(text) - start > PARSED_AT_ONCE and (cut := TOP_LEVEL.search(text, start + PARSED_AT_ONCE)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


class _Reader:
    """Collects the definitions and imports of one file's trees."""

    def __init__(self, nodes: Grammar) -> None:
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self._nodes = nodes
        self._code, self._line = b"", 0

    def read(self, code: bytes, tree: Tree, line: int) -> None:
        """Read the tree of code that begins on a line, in its order; not recursive, since code may nest deeply."""
        self._code, self._line = code, line
        waiting = [(tree.root_node, False)]
        while waiting:
            node, in_class = waiting.pop()
            kind = self._nodes.kinds.get(node.type)
            if kind and node.is_named:
                self._define(node, "method" if in_class and kind == "function" else kind)
            if node.type in self._nodes.imports:
                self.imports += self._nodes.imported(node, self._text)
            if node.type in self._nodes.entered or node.is_error:
                inside = node.type in self._nodes.classes or (in_class and node.type not in ("module", "mod_item"))
                waiting += ((child, inside) for child in reversed(node.named_children))

    def _define(self, node: Node, kind: str) -> None:
        if self._nodes.named:
            names = [each for each in self._nodes.named(node) if not each.child_count]
        else:
            field = "left" if node.type in ("assignment", "type_alias_statement") else "name"
            names = [each for each in node.children_by_field_name(field) if each.type in _NAMES]
        for name in names:
            line = self._line + name.start_point.row
            self.definitions.append(Definition(self._text(name), kind, line, self._signature(node)))
        if node.type == "assignment" and (right := node.child_by_field_name("right")) and right.type == "assignment":
            self._define(right, kind)

    def _signature(self, node: Node) -> str:
        body, parameters = node.child_by_field_name("body"), node.child_by_field_name("parameters")
        end = min(body.start_byte if body else node.end_byte, node.start_byte + 4 * LONGEST_SIGNATURE)
        head, at = b"", node.start_byte
        for each in parameters.named_children if parameters else ():
            if "comment" in each.type and each.end_byte <= end:  # on one line it would hide what follows
                head, at = head + self._code[at : each.start_byte], each.end_byte
        head += self._code[at:end]
        return " ".join(head.decode("utf-8", "ignore").split())[:LONGEST_SIGNATURE].rstrip(" {:")

    def _text(self, node: Node | None) -> str:
        return self._code[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""
