"""Cleans the comments of languages that have `//` and `/* */`; what strings and templates hold stays."""

from __future__ import annotations

import re

from tree_sitter import Node, Parser, Query, QueryCursor, Tree

from efim_lab.workshop.training.corpus.filters import OPENING_NOTICE
from efim_ls.completion.filters.trimming import NOTICE
from efim_ls.text.grammars import grammar_of

_TOOLS = (
    r"[@#]__\w+__|@ts-(?:ignore|expect-error|nocheck|check)\b|@(?:no)?flow\b|@jsx\w*\b|@prettier\b|@format\b|"
    r"(?:eslint|jshint|jslint|tslint|jscs|rome|biome|oxlint|deno-lint|prettier|istanbul|v8|c8|webpack\w*)"
    r"(?:-[-\w]+|:|\s+ignore\b|\s+\w+\s*:)|globals?\s+\w|"
    r"noinspection\b|nolint\b|nosec\b|nosonar\b|lint:|spell-checker\s*:|c?spell\s*:|(?:end)?region\b|"
    r"\+build\b|go:generate\b|sourceMappingURL|<reference\b|-\*-.*-\*-|(?:vim?|ex):\s*(?:set?\s|\w+=)"
)
_PRAGMA = re.compile(rf"(?://+|/\*+)[#\s]*(?:{_TOOLS})", re.IGNORECASE)
_AUTHOR = re.compile(
    r"^[ \t]*(?:\*|//+)?[ \t]*(?:@(?:authors?|licen[sc]e|copyright)\b|authors?:)[^\n]*\n?",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = re.compile(r"(?:[ \t]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/[ \t]*|#![^\n]*)\n)+", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t]*\n)+")
_HOLLOW = re.compile(r"[/*\s]*")


def without_opening_notices(text: str) -> str:
    """Drop the blocks of comments at a file's start that are about copyright; blank lines part blocks."""
    kept, at = "", 0
    while found := _BLANK.match(text, at) or _OPENING.match(text, at):
        kept += "" if found[0].strip() and OPENING_NOTICE.search(found[0]) else found[0]
        at = found.end()
    return kept.lstrip("\n") + text[at:]


def clean_comments(text: str, language: str) -> str:
    r"""Remove comments for tools, notices of copyright and names of authors from a file whose lines end with \n.

    A line that holds nothing else goes as a whole. `language` is LSP's name of a language that has a grammar.
    """
    text = without_opening_notices(text)
    if not (_PRAGMA.search(text) or NOTICE.search(text) or _AUTHOR.search(text)):
        return text
    data = text.encode()
    for block in reversed(_blocks(data, language)):
        is_notice = NOTICE.search("\n".join(_text(node) for node in block)) is not None
        for node in reversed(block):
            before = _text(node)
            after = "" if is_notice or _PRAGMA.match(before) else _AUTHOR.sub("", before)
            if _HOLLOW.fullmatch(after) and after != before:
                start, end = _around(data, node)
                data = data[:start] + data[end:]
            elif after != before:
                data = data[: node.start_byte] + after.encode() + data[node.end_byte :]
    return data.decode().lstrip("\n")


def parsed_code(data: bytes, language: str) -> Tree:
    """Return the syntax tree of a text; `language` is LSP's name of a language that has a grammar."""
    if (grammar := grammar_of(language)) is None:
        raise ValueError(f"no grammar of {language}")
    return Parser(grammar).parse(data)


def _blocks(data: bytes, language: str) -> list[list[Node]]:
    """Return the comments, those on lines that follow each other together; none that a JSX expression is made of."""
    tree = parsed_code(data, language)
    found = QueryCursor(Query(tree.language, "(comment) @comment")).captures(tree.root_node).get("comment", [])
    blocks = list[list[Node]]()
    for node in sorted(found, key=lambda each: each.start_byte):
        if node.parent and node.parent.type == "jsx_expression":
            continue
        line = data.rfind(b"\n", 0, node.start_byte) + 1
        alone = not data[line : node.start_byte].strip()
        if blocks and alone and node.start_point.row == blocks[-1][-1].end_point.row + 1:
            blocks[-1].append(node)
        else:
            blocks.append([node])
    return blocks


def _around(data: bytes, node: Node) -> tuple[int, int]:
    """Return where a comment begins and ends, with the blanks before it, or with its lines if they hold nothing else.

    With lines go the blank ones behind them, unless code stands right before.
    """
    start = data.rfind(b"\n", 0, node.start_byte) + 1
    end = data.find(b"\n", node.end_byte)
    end = len(data) if end < 0 else end + 1
    if data[node.end_byte : end].strip():
        return node.start_byte, node.end_byte
    if data[start : node.start_byte].strip():
        return len(data[: node.start_byte].rstrip(b" \t")), node.end_byte
    if start == 0 or data[:start].endswith(b"\n\n"):
        while data[end : end + 1] == b"\n":
            end += 1
    return start, end


def _text(node: Node) -> str:
    return (node.text or b"").decode()
