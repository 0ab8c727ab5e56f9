"""What a name stands for at a place: a variable, or what only has its name, as attributes, keywords and keys do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tree_sitter import Node

from efim_ls.next_edit.surroundings import in_comment, in_string
from efim_ls.next_edit.syntax.pieces import piece_at
from efim_ls.text.document import Document

Kind = Literal["variable", "shorthand", "other"]

_VARIABLES = frozenset({"constant", "identifier", "name", "type_identifier", "variable_name", "word"})
_SHORT = frozenset({"shorthand_property_identifier", "shorthand_property_identifier_pattern"})
# Fields of nodes in which an identifier is no variable.
_MEMBERS = frozenset({
    ("argument", "name"), ("attribute", "attribute"), ("keyword_argument", "name"), ("scoped_identifier", "name"),
})  # fmt: skip
_PROPERTIES = frozenset({"property_element", "scoped_property_access_expression"})  # around variables of PHP
_BODIES = frozenset({"class_definition", "impl_item", "trait_item"})  # whose functions and assignments are members
_DEFINING = frozenset({"def", "fn", "fun", "func", "function", "init"})


def kind_of_name(document: Document, at: int, left: Sequence[str], right: Sequence[str]) -> Kind:
    """Return what a name stands for, by the syntax tree or, without one, by the tokens around it, outwards."""
    if _is_behind_owner(left):
        return "other"
    piece = piece_at(document, at)
    node = piece.node(at) if piece else None
    if node is None or node.parent is None:
        in_prose = in_string(left) or in_comment(left[::-1], document.language)
        return "other" if in_prose or left[0] == "@" or _is_labelled(left, right) else "variable"
    if node.type in _SHORT or node.parent.type == "shorthand_field_initializer":
        return "shorthand"
    if node.parent.type == "token_tree" and _is_labelled(left, right):  # what a macro is given is not parsed
        return "other"
    return "variable" if node.type in _VARIABLES and not _is_member(node) else "other"


def _is_behind_owner(left: Sequence[str]) -> bool:
    """Return whether a dot or an arrow stands before a name; `..` and `...` stand before variables."""
    two = tuple(left[1::-1])
    return (left[0] == "." and two != (".", ".")) or two in (("-", ">"), (":", ":"))


def _is_member(name: Node) -> bool:
    """Return whether an identifier is an attribute, a keyword, a key, or defined by a class."""
    parent = name.parent
    if parent is None:
        return False
    if any(parent.type == kind and parent.child_by_field_name(field) == name for kind, field in _MEMBERS):
        return True
    if name.type == "word":  # of shell
        return parent.type not in ("command_name", "function_definition")
    if parent.type == "variable_name":
        return parent.parent is not None and parent.parent.type in _PROPERTIES
    if parent.type == "keyword_pattern":
        return parent.children[0] == name
    if parent.type == "literal_element":
        keyed = parent.parent
        return keyed is not None and keyed.type == "keyed_element" and keyed.children[0] == parent
    is_function = parent.type in ("function_definition", "function_item")
    if is_function or parent.type == "assignment":
        if parent.child_by_field_name("name" if is_function else "left") != name:
            return False
        outer = parent.parent
        while outer is not None and outer.type in ("expression_statement", "decorated_definition", "block"):
            outer = outer.parent
        if outer is not None and outer.type == "declaration_list":
            outer = outer.parent
        return outer is not None and outer.type in _BODIES
    return False


def _is_labelled(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether a name is a keyword of a call or a key, by its neighbours."""
    open_brackets = list[str]()
    for token in reversed(left):
        if token in ("(", "[", "{"):
            open_brackets.append(token)
        elif token in (")", "]", "}") and open_brackets:
            open_brackets.pop()
    inside = open_brackets[-1] if open_brackets else ""
    is_label = right[0] == ":" or (right[0] == "=" and right[1] not in ("=", ">"))
    return is_label and inside in ("(", "{") and left[0] in (inside, ",") and _DEFINING.isdisjoint(left)
