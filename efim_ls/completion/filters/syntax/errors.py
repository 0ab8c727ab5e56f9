"""Ends a suggestion before the line that does not parse, or before a name that stands nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from efim_ls.completion.filters.place import Place, beginning, holds_word
from efim_ls.completion.filters.syntax.parsed_suggestion import ParsedSuggestion, parse
from efim_ls.languages.forms.language import Indented, NameNodes
from efim_ls.languages.table import LANGUAGES

# In code with errors: what may bind a name later on its line, and what follows a name that may be bound.
_MAY_BIND = re.compile(rb"\b(?:as|case|class|def|del|for|from|global|import|lambda|nonlocal|type)\b|\.\s*$")
_ANNOTATED = re.compile(rb"\s*:")
_ASSIGNED = re.compile(rb"\s*=(?!=)")
# What stands before a name of a module, a class or a function: a dot, an import's keyword or list, a call's bracket.
NEAR = 16  # bytes before a name
_HAS_NAMES = re.compile(rb"(?:[.(,]|\bimport|\bfrom)\s*\Z")


def syntax(text: str, place: Place) -> str:
    """End before the line with the first token that cannot follow the code before it, if the language has a grammar.

    Unfinished code is no error. Nothing is judged where the code before the cursor does not parse.
    """
    parsed = parse(text, place)
    if parsed is None:
        return text
    errors = [] if parsed.error is None or parsed.may_be_right(parsed.error) else [parsed.error]
    if indented := LANGUAGES[place.language].indented:
        errors += (at for at in _misplaced(parsed, indented) if parsed.start <= at < parsed.end)
    return parsed.text(min(errors)).rpartition("\n")[0] if errors else text


def _misplaced(parsed: ParsedSuggestion, indented: Indented) -> Iterator[int]:
    """Yield where indentation is wrong, which the grammar lets pass, in what ends behind the cursor."""
    nodes = [parsed.sound_tree.root_node]
    while nodes:
        node = nodes.pop()
        children = [child for child in node.children if not child.is_extra]
        if node.type in ("module", "block"):
            yield from _misplaced_statements(children, parsed, indented)
            if not children and (following := _following(node)):
                yield following.start_byte
        for child in children:
            if child.type in indented.clauses and _starts_line(child, parsed) and _column(child) != _column(node):
                yield child.start_byte
        nodes += (child for child in children if child.end_byte >= parsed.start)


def _misplaced_statements(statements: list[Node], parsed: ParsedSuggestion, indented: Indented) -> Iterator[int]:
    for before, statement in pairwise(statements):
        clauses = (each.type for each in before.children)
        lacks_handler = before.type == indented.tried and indented.handlers.isdisjoint(clauses)
        beside = _starts_line(statement, parsed) and _column(statement) != _column(statements[0])
        if lacks_handler or beside:
            yield statement.start_byte


def _following(node: Node) -> Node | None:
    """Return the next node behind a node that is not a comment."""
    up: Node | None = node
    while up is not None:
        after = up.next_sibling
        while after is not None and after.is_extra:
            after = after.next_sibling
        if after is not None:
            return after
        up = up.parent
    return None


def _starts_line(node: Node, parsed: ParsedSuggestion) -> bool:
    """Return whether nothing but blanks that the suggestion wrote stand before a node on its line."""
    line = parsed.code.rfind(b"\n", parsed.start, node.start_byte) + 1
    return line > 0 and not parsed.code[line : node.start_byte].strip()


def _column(node: Node) -> int:
    return node.start_point.column


def unknown_names(text: str, place: Place) -> str:
    """End before the first name that code uses and that stands nowhere else, save the word at the cursor, and
    before the first, that word too, which the module, class or function in question does not have: before its whole
    line if that is an import below the first line.
    """
    nodes = LANGUAGES[place.language].names
    parsed = parse(text, place) if nodes else None
    if parsed is None or nodes is None:
        return text
    bound, used = set[str](), list[tuple[int, str]]()
    for node in _identifiers(parsed):
        name = parsed.code[node.start_byte : node.end_byte].decode(errors="surrogatepass")
        statement = _import_around(node, nodes)
        if not _may_have(node, name, parsed, place, statement is not None):
            is_below = statement is not None and "\n" in parsed.text(max(statement.start_byte, parsed.start))
            used.append((statement.start_byte if statement and is_below else node.start_byte, ""))
        elif _is_bound(node, parsed, nodes):
            bound.add(name)
        elif node.start_byte >= parsed.start:
            used.append((node.start_byte, name))
    for at, name in sorted(used):
        if name not in nodes.known and name not in bound and not (name and _stands(name, place)):
            return beginning(text, len(parsed.text(at)), place)
    return text


def _import_around(node: Node, nodes: NameNodes) -> Node | None:
    """Return the import that a name stands in, None if it stands in none."""
    up = node.parent
    while up is not None and up.type in nodes.parts_of_imports:
        up = up.parent
    return up if up is not None and up.type in nodes.imports else None


def _may_have(node: Node, name: str, parsed: ParsedSuggestion, place: Place, is_imported: bool) -> bool:
    """Return whether what code names in an import, or in the suggestion's first line, may have this name."""
    before = parsed.text(max(node.start_byte, parsed.start))
    if node.end_byte <= parsed.start or ("\n" in before and not is_imported):
        return True
    if not _HAS_NAMES.search(parsed.code[max(0, node.start_byte - NEAR) : node.start_byte]):
        return True
    expected = place.names_after(before)
    if expected is None:
        return True
    if expected.kind == "keyword" and not _ASSIGNED.match(parsed.code, node.end_byte):
        return True
    return expected.names.may_have(name)


def _stands(name: str, place: Place) -> bool:
    """Return whether a name stands in the file without the suggestion, or in another open text."""
    texts = (place.above, place.before, place.rest, place.below, *place.others)
    return any(holds_word(text, name) for text in texts)


def _identifiers(parsed: ParsedSuggestion) -> Iterator[Node]:
    """Yield the names in the suggestion, in no order."""
    nodes = [parsed.tree.root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "identifier":
            yield node
        nodes += (
            each for each in node.children if each.end_byte > parsed.start and each.start_byte < parsed.known_end
        )


def _is_bound(node: Node, parsed: ParsedSuggestion, nodes: NameNodes) -> bool:
    """Return whether a name is bound or belongs to another thing, as attributes do; true where that is in doubt."""
    if _ASSIGNED.match(parsed.code, node.end_byte):
        return True
    parent = node.parent
    if parent is None or parent.is_error:
        line = parsed.code.rfind(b"\n", 0, node.start_byte) + 1
        before = _MAY_BIND.search(parsed.code, line, node.start_byte)
        return before is not None or _ANNOTATED.match(parsed.code, node.end_byte) is not None
    if (field := nodes.binding_fields.get(parent.type)) and parent.child_by_field_name(field) == node:
        return True
    above = parent.parent if parent.type in nodes.wrappers else parent
    return above is not None and above.type in nodes.binding and (above is parent or above.type != "typed_parameter")
