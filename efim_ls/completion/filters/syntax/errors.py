"""Ends a suggestion before the line that does not parse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from efim_ls.completion.filters.place import Place
from efim_ls.completion.filters.syntax.parsed_suggestion import ParsedSuggestion, parse
from efim_ls.languages.forms.language import Indented
from efim_ls.languages.table import LANGUAGES


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
