"""What a name stands for at a place, and which function it is local to, by the syntax tree of the code around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from tree_sitter import Node

from efim_ls.languages.forms.language import Grammar
from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.pattern import whole_words
from efim_ls.next_edit.situation import in_comment, in_string
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
_VARIABLES = frozenset({"constant", "identifier", "name", "type_identifier", "variable_name", "word"})
_SHORT = frozenset({"shorthand_property_identifier", "shorthand_property_identifier_pattern"})
# Fields of nodes in which an identifier is no variable.
_MEMBERS = frozenset({
    ("argument", "name"), ("attribute", "attribute"), ("keyword_argument", "name"), ("scoped_identifier", "name"),
})  # fmt: skip
_PROPERTIES = frozenset({"property_element", "scoped_property_access_expression"})  # around variables of PHP
_BODIES = frozenset({"class_definition", "impl_item", "trait_item"})  # whose functions and assignments are members
_DEFINING = frozenset({"def", "fn", "fun", "func", "function", "init"})

Kind = Literal["variable", "shorthand", "other"]


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
