"""Says where in the code a cursor is: figures are broken down by it."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Literal, get_args

from efim_lab.gate.evaluation.places.cursors import is_word
from efim_lab.gate.evaluation.typist.lines import TypedLine

CursorKind = Literal["start of line", "inside a word", "after a dot", "in a string or comment", "elsewhere"]
KINDS: tuple[CursorKind, ...] = get_args(CursorKind)
Quote = Literal["string", "comment", "docstring"]
BETWEEN_STATEMENTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
STRING_STARTS = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")} - {None}  # Python 3.12
STRING_ENDS = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")} - {None}


def kind_of(line: TypedLine, cursor: int) -> CursorKind:
    """Return where a cursor is while the line is typed; a string or comment has precedence."""
    text = line.document.text
    if quote_at(line, cursor):
        return "in a string or comment"
    if not line.typed_at(cursor).strip():
        return "start of line"
    if text[cursor - 1] == ".":
        return "after a dot"
    return "inside a word" if is_word(text[cursor - 1]) and is_word(text[cursor]) else "elsewhere"


def quote_at(line: TypedLine, cursor: int) -> Quote | None:
    """Return in what kind of text for people a cursor is; None if it is in code."""
    if line.document.language in ("", "python"):
        spans = _python_spans(line.document.text)
        return next((kind for start, end, kind in spans if start < cursor < end + (kind == "comment")), None)
    return _open_quote(line.typed_at(cursor).lstrip())


@lru_cache(maxsize=8)
def _python_spans(text: str) -> Sequence[tuple[int, int, Quote]]:
    """Return the offsets of strings and comments, up to the first place that Python cannot read."""
    spans = list[tuple[int, int, Quote]]()
    with suppress(tokenize.TokenError, SyntaxError):
        for span in _spans(text):
            spans.append(span)  # noqa: PERF402 - those before an error stay
    return spans


def _spans(text: str) -> Iterator[tuple[int, int, Quote]]:
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    opened, begins_statement = list[int](), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        if token.type in STRING_STARTS:
            opened.append(start)
        elif token.type in STRING_ENDS:
            yield opened.pop(), end, "string"
        elif token.type == tokenize.STRING:
            yield start, end, "docstring" if begins_statement else "string"
        elif token.type == tokenize.COMMENT:
            yield start, end, "comment"
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_statement = token.type in BETWEEN_STATEMENTS


def _open_quote(typed: str) -> Quote | None:
    """Return in what a line ends that begins on it, in languages like C and shell."""
    quote = ""
    for at, character in enumerate(typed):
        if quote:
            escaped = typed[at - 1] == "\\"
            quote = "" if character == quote and not escaped else quote
        elif character in "\"'`":
            quote = character
        elif typed.startswith(("//", "/*"), at) or (character == "#" and not typed[:at].strip()):
            return "comment"
    return "string" if quote else None
