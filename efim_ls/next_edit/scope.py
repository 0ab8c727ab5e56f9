"""Which function a name is local to, read off the syntax tree of the code around it."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from tree_sitter import Node, Parser

from efim_ls.text.document import Document
from efim_ls.text.grammars import grammar_of
from efim_ls.text.lines import lines_upwards

MOST_PARSED = 10_000  # characters of a block, in about 1 ms
CLOSERS = (")", "]", "}")
LINE = re.compile(r"^([^\S\r\n]*)(\S?)", re.MULTILINE)

_FUNCTIONS = frozenset({
    "arrow_function", "closure_expression", "func_literal", "function_declaration", "function_definition",
    "function_expression", "function_item", "generator_function_declaration", "lambda", "method_declaration",
    "method_definition",
})  # fmt: skip
# Where names are bound: fields of nodes, in all of the grammars.
_BINDING = frozenset({
    ("assignment", "left"), ("as_pattern", "alias"), ("catch_clause", "parameter"), ("const_spec", "name"),
    ("for_expression", "pattern"), ("for_in_clause", "left"), ("for_in_statement", "left"), ("for_statement", "left"),
    ("let_condition", "pattern"), ("let_declaration", "pattern"), ("match_arm", "pattern"),
    ("named_expression", "name"), ("parameter_declaration", "name"), ("range_clause", "left"),
    ("short_var_declaration", "left"), ("var_spec", "name"), ("variable_declarator", "name"),
    *((function, field) for function in _FUNCTIONS for field in ("parameter", "parameters")),
})  # fmt: skip
# Fields through which a name is used, or is a member's, though a binding is around it.
_USING = frozenset({
    "argument", "arguments", "attribute", "field", "function", "index", "key", "object", "operand", "property",
    "right", "subscript", "type", "value",
})  # fmt: skip
_NAMES = frozenset({"identifier", "shorthand_property_identifier_pattern"})
_PROSE = ("comment", "string", "char_literal", "template", "interpreted", "raw_")


class _Piece(NamedTuple):
    """A part of a document that was parsed, from an offset on."""

    start: int
    text: str
    root: Node

    def node(self, at: int) -> Node | None:
        """Return the smallest node at an offset of the document."""
        byte = len(self.text[: at - self.start].encode("utf-8", "replace"))
        return self.root.descendant_for_byte_range(byte, byte + 1)

    def offset(self, byte: int) -> int:
        """Return the offset in the document of a byte of the piece."""
        return self.start + len(self.text.encode("utf-8", "replace")[:byte].decode("utf-8", "ignore"))


def local_scope(document: Document, at: int, names: Collection[str]) -> tuple[int, int] | None:
    """Return the span of the innermost function around a name that binds one of these names; None if none does.

    None as well if the name is a member's, or in a language without a grammar.
    """
    piece = _piece(document, at)
    here = piece.node(at) if piece else None
    if piece is None or here is None or here.type not in _NAMES:
        return None
    any_name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
    nodes = [piece.node(piece.start + each.start()) for each in any_name.finditer(piece.text)]
    bound = {function.id for node in nodes if node and (function := _binder(node))}
    function = here.parent
    while function is not None:
        if function.type in _FUNCTIONS and function.id in bound:
            return piece.offset(function.start_byte), piece.offset(function.end_byte)
        function = function.parent
    return None


def is_prose(document: Document, at: int) -> bool:
    """Return whether an offset lies in a string or a comment, as far as the block around it tells."""
    if document.language == "python" and document.text.count('"""', 0, at) % 2:
        return True
    piece = _piece(document, at)
    node = piece.node(at) if piece else None
    while node is not None:
        if node.type in ("interpolation", "template_substitution"):
            return False
        if node.type.startswith(_PROSE) or node.type.endswith("comment"):
            return True
        node = node.parent
    return False


def _binder(name: Node) -> Node | None:
    """Return the function in which a name is bound where it stands; None if it is used there, or bound outside."""
    if name.type not in _NAMES:
        return None
    node, bound = name, False
    while (parent := node.parent) is not None and parent.parent is not None:
        field = _field(parent, node)
        if not bound and field in _USING:
            return None
        bound = bound or (parent.type, field) in _BINDING
        if parent.type in _FUNCTIONS:
            return parent if bound else None
        node = parent
    return None


def _field(parent: Node, child: Node) -> str | None:
    for number, each in enumerate(parent.children):
        if each.id == child.id:
            return parent.field_name_for_child(number)
    return None


def _piece(document: Document, at: int) -> _Piece | None:
    """Parse the largest block around an offset that is not too long, if there is one."""
    text, indent, starts = document.text, sys.maxsize, list[int]()
    for start in lines_upwards(text, at):
        here = _indent(text, start)
        if here < indent and not text.startswith(CLOSERS, start + here):
            indent = here
            starts.append(start)
        if indent == 0 or at - start > MOST_PARSED:
            break
    for start in reversed(starts):
        end = _block_end(text, start, _indent(text, start))
        if at < end <= start + MOST_PARSED:
            root = _root(document.language, text[start:end])
            return _Piece(start, text[start:end], root) if root else None
    return None


def _block_end(text: str, start: int, indent: int) -> int:
    """Return where the lines below a block's first one end that are indented further or close it."""
    for line in LINE.finditer(text, start, start + MOST_PARSED + 1):
        here = len(line[1])
        if line.start() > start and line[2] and (here < indent or (here == indent and line[2] not in CLOSERS)):
            return line.start()
    return min(len(text), start + MOST_PARSED + 1)


def _indent(text: str, start: int) -> int:
    """Return how many blanks a line begins with; very many if it has nothing else."""
    line = LINE.match(text, start)
    return len(line[1]) if line and line[2] else sys.maxsize


@lru_cache(maxsize=16)
def _root(language: str, code: str) -> Node | None:
    grammar = grammar_of(language)
    return Parser(grammar).parse(code.encode("utf-8", "replace")).root_node if grammar else None
