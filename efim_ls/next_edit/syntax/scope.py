"""Which function a name is local to, read off the syntax tree of the code around it."""

from __future__ import annotations

import re
from collections.abc import Collection

from tree_sitter import Node

from efim_ls.languages.forms.language import Grammar
from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.pattern import whole_words
from efim_ls.next_edit.syntax.pieces import piece_at
from efim_ls.text.document import Document
from efim_ls.text.lines import line_start

# Fields through which a name is used, or is a member's, though a binding is around it.
_USING = frozenset({
    "argument", "arguments", "attribute", "field", "function", "index", "key", "object", "operand", "property",
    "right", "subscript", "type", "value",
})  # fmt: skip
TOP_LEVEL = re.compile(r"(?:(?:export |pub )?(?:const|let|var|static) (?:mut )?)?")  # before a variable of a file
_NAMES = frozenset({"identifier", "shorthand_property_identifier_pattern"})
_PROSE = ("comment", "string", "char_literal", "template", "interpreted", "raw_")


def local_scope(document: Document, at: int, names: Collection[str]) -> tuple[int, int] | None:
    """Return the span of the innermost function around a name that binds one of these names; None if none does.

    None as well if the name is a member's, or in a language without a grammar.
    """
    piece = piece_at(document, at)
    here = piece.node(at) if piece else None
    nodes = LANGUAGES[document.language].grammar
    if piece is None or here is None or nodes is None or here.type not in _NAMES:
        return None
    any_name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
    names_there = [piece.node(piece.start + each.start()) for each in any_name.finditer(piece.text)]
    bound = {function.id for node in names_there if node and (function := _binder(node, nodes))}
    function = here.parent
    while function is not None:
        if function.type in nodes.functions and function.id in bound:
            return piece.offset(function.start_byte), piece.offset(function.end_byte)
        function = function.parent
    return None


def is_bound(document: Document, at: int, name: str) -> bool:
    """Return whether a variable of this name is bound above an offset in a function around it, or by the file."""
    piece = piece_at(document, at)
    node, nodes = piece.node(at) if piece else None, LANGUAGES[document.language].grammar
    if piece is None or node is None or nodes is None:
        return False
    around = set[int]()
    while (node := node.parent) is not None:
        around.add(node.id)
    above = re.finditer(whole_words(name), piece.text[: at - piece.start])
    names_above = (piece.node(piece.start + each.start()) for each in above)
    if any(each and (binder := _binder(each, nodes)) and binder.id in around for each in names_above):
        return True
    text = document.text
    assigned = re.finditer(rf"{re.escape(name)}(?: *:[^=\n]+)? *:?=(?!=)", text)
    return any(TOP_LEVEL.fullmatch(text, line_start(text, each.start()), each.start()) for each in assigned)


def is_prose(document: Document, at: int) -> bool:
    """Return whether an offset lies in a string or a comment, by the block around it."""
    if LANGUAGES[document.language].triple_quotes and document.text.count('"""', 0, at) % 2:
        return True
    piece = piece_at(document, at)
    node = piece.node(at) if piece else None
    while node is not None:
        if node.type in ("interpolation", "template_substitution"):
            return False
        if node.type.startswith(_PROSE) or node.type.endswith("comment"):
            return True
        node = node.parent
    return False


def _binder(name: Node, nodes: Grammar) -> Node | None:
    """Return the function in which a name is bound where it stands; None if it is used there, or bound outside."""
    if name.type not in _NAMES:
        return None
    node, bound = name, False
    while (parent := node.parent) is not None and parent.parent is not None:
        numbers = (number for number, each in enumerate(parent.children) if each.id == node.id)
        field = next((parent.field_name_for_child(number) for number in numbers), None) or ""
        if not bound and field in _USING:
            return None
        bound = bound or nodes.binds(parent.type, field)
        if parent.type in nodes.functions:
            return parent if bound else None
        node = parent
    return None
