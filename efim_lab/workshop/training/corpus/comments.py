"""Cleans the comments of languages that have `//` and `/* */`, or `#`; what strings and templates hold stays."""

from __future__ import annotations

import re
from typing import NamedTuple

from tree_sitter import Parser, Query, QueryCursor, Tree

from efim_lab.workshop.training.corpus.filters import OPENING_NOTICE
from efim_ls.completion.filters.trimming import NOTICE
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.grammars import grammar_of

_TOOLS = (
    r"[@#]__\w+__|@ts-(?:ignore|expect-error|nocheck|check)\b|@(?:no)?flow\b|@jsx\w*\b|@prettier\b|@format\b|"
    r"(?:eslint|jshint|jslint|tslint|jscs|rome|biome|oxlint|deno-lint|prettier|istanbul|v8|c8|webpack\w*)"
    r"(?:-[-\w]+|:|\s+ignore\b|\s+\w+\s*:)|globals?\s+\w|"
    r"noinspection\b|nolint\w*|nosec\b|nosonar\b|lint:|spell-checker\s*:|c?spell\s*:|(?:end)?region\b|"
    r"clang-(?:format|tidy)\b|cppcheck-suppress\b|coverity\[|lcov_excl_\w+|iwyu\s+pragma|astyle\b|@formatter:|"
    r"checkstyle(?::|\.off|\.on)|\$non-nls-\d|rubocop\s*:|:nodoc:|:nocov:|standard:|shellcheck\s+\w+=|"
    r"phpcs:|phan-|psalm-|phpstan-|@phpstan-ignore|@codecoverageignore\w*|@psalm-suppress|(?:en)?coding\s*[:=]\s*\w+-|"
    r"\+build\b|go:generate\b|sourceMappingURL|<reference\b|-\*-.*-\*-|(?:vim?|ex):\s*(?:set?\s|\w+=)"
)
_PRAGMA = re.compile(rf"(?://+|/\*+|#+)[#!\s]*(?:{_TOOLS})", re.IGNORECASE)
_AUTHOR = re.compile(
    r"^[ \t]*(?:\*|//+|#+)?[ \t]*(?:[@\\](?:authors?|licen[sc]e|copyright)\b|authors?:)[^\n]*\n?",
    re.IGNORECASE | re.MULTILINE,
)
_SLASHES = re.compile(r"(?:[ \t]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/[ \t]*|#![^\n]*)\n)+", re.DOTALL)
_HASHES = re.compile(r"(?:[ \t]*#[^\n]*\n)+")
_FIRST = re.compile(r"<\?php[ \t]*\n")
_FIRST_OF_HASHES = re.compile(r"#![^\n]*\n")
_BLANK = re.compile(r"(?:[ \t]*\n)+")
_HOLLOW = re.compile(r"[/*#\s]*")
_COMMENTS = ("comment", "block_comment", "line_comment")  # as grammars call them


class _Comment(NamedTuple):
    """A comment, and where its bytes lie in a file."""

    start: int
    end: int
    text: str


def without_opening_notices(text: str, language: str = "") -> str:
    """Drop the blocks of comments at a file's start that are about copyright; blank lines part blocks.

    `language` is LSP's name; by default comments begin with two slashes. PHP's first tag stays, and what tells which
    program reads a script, if comments begin with `#`.
    """
    has_hashes = LANGUAGES[language].comment == "#" and bool(language)
    opening, first = (_HASHES, _FIRST_OF_HASHES) if has_hashes else (_SLASHES, _FIRST)
    found = first.match(text)
    kept = found[0] if found else ""
    at = len(kept)
    while found := _BLANK.match(text, at) or opening.match(text, at):
        kept += "" if found[0].strip() and OPENING_NOTICE.search(found[0]) else found[0]
        at = found.end()
    return kept.lstrip("\n") + text[at:]


def clean_comments(text: str, language: str) -> str:
    r"""Remove comments for tools, notices of copyright and names of authors from a file whose lines end with \n.

    A line that holds nothing else goes as a whole. `language` is LSP's name of a language that has a grammar.
    """
    text = without_opening_notices(text, language)
    if not (_PRAGMA.search(text) or NOTICE.search(text) or _AUTHOR.search(text)):
        return text
    data = text.encode()
    for block in reversed(_blocks(data, language)):
        is_notice = NOTICE.search("\n".join(each.text for each in block)) is not None
        for each in reversed(block):
            after = "" if is_notice or _PRAGMA.match(each.text) else _AUTHOR.sub("", each.text)
            if _HOLLOW.fullmatch(after) and after != each.text:
                start, end = _around(data, each)
                data = data[:start] + data[end:]
            elif after != each.text:
                data = data[: each.start] + after.encode() + data[each.end :]
    return data.decode().lstrip("\n")


def parsed_code(data: bytes, language: str) -> Tree:
    """Return the syntax tree of a text; `language` is LSP's name of a language that has a grammar."""
    if (grammar := grammar_of(language)) is None:
        raise ValueError(f"no grammar of {language}")
    return Parser(grammar).parse(data)


def _blocks(data: bytes, language: str) -> list[list[_Comment]]:
    """Return the comments, those on lines that follow each other together; none that a JSX expression is made of."""
    tree = parsed_code(data, language)
    known = (each for each in _COMMENTS if tree.language.id_for_node_kind(each, True) is not None)
    query = Query(tree.language, "".join(f"({each}) @comment" for each in known))
    found = QueryCursor(query).captures(tree.root_node).get("comment", [])
    blocks = list[list[_Comment]]()
    for node in sorted(found, key=lambda each: each.start_byte):
        if node.parent and node.parent.type == "jsx_expression":
            continue
        text = (node.text or b"").rstrip(b"\n")  # Rust's grammar counts the line's end as part of a comment
        comment = _Comment(node.start_byte, node.start_byte + len(text), text.decode())
        line = data.rfind(b"\n", 0, comment.start) + 1
        alone = not data[line : comment.start].strip()
        if blocks and alone and not data[blocks[-1][-1].end : line].replace(b"\n", b"", 1).strip(b" \t"):
            blocks[-1].append(comment)
        else:
            blocks.append([comment])
    return blocks


def _around(data: bytes, comment: _Comment) -> tuple[int, int]:
    """Return where a comment begins and ends, with the blanks before it, or with its lines if they hold nothing else.

    With lines go the blank ones behind them, unless code stands right before.
    """
    start = data.rfind(b"\n", 0, comment.start) + 1
    end = data.find(b"\n", comment.end)
    end = len(data) if end < 0 else end + 1
    if data[comment.end : end].strip():
        return comment.start, comment.end
    if data[start : comment.start].strip():
        return len(data[: comment.start].rstrip(b" \t")), comment.end
    if start == 0 or data[:start].endswith(b"\n\n"):
        while data[end : end + 1] == b"\n":
            end += 1
    return start, end
