"""Judges a suggestion by itself, with Python's own tokenizer and parser: unfinished, or saying something again.

The server's filters are not asked, because the measurement is about them.
"""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
import warnings
from collections.abc import Iterator
from keyword import kwlist
from typing import NamedTuple

WORDS = 6  # in a row that are said again
LONG_LINE = 20  # characters without blanks of a line that is said again
MOST_ALIKE = 8  # equal letters in a row
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?([^\n#)]*)|import[ \t]+([^\n#;]*))", re.MULTILINE
)
CLAUSE = re.compile(r"(?:elif|else)\b")
HANDLER = re.compile(r"(?:except|finally)\b")
ENDS = (")", "]", "}", "...")  # signs that can end an expression
WORDS_THAT_END = ("None", "True", "False", "pass", "break", "continue", "return", "raise", "yield")
_WORD = re.compile(r"\w+")
_QUOTES = re.compile(r"""[rRbBuUfFtT]*("{3}|'{3}|"|')""")


class _Read(NamedTuple):
    """What the tokenizer reads of a text: open brackets, if a string is open, and the last logical line's tokens."""

    depth: int
    in_string: bool
    last: list[tokenize.TokenInfo]

    @property
    def row(self) -> int:
        """The row, from 0, on which the last logical line begins."""
        return self.last[0].start[0] - 1


def is_unfinished(above: str, before: str, text: str) -> bool:
    """Return whether a suggestion ends within a statement that it begins, or goes on with.

    The head of a block, which ends none, is whole. `above` is the code above the cursor's line, `before` that line up
    to the cursor. Inside of brackets or strings that are open above, an element or a line may end it.
    """
    whole = f"{above}{before}{text}\n"
    over, now = _read(above), _read(whole)
    if now is None or over is None:
        return now is None
    if over.in_string and now.in_string:
        return False
    if now.in_string or now.depth > over.depth:
        return True
    if not now.last:
        return False
    last = now.last[-1].string
    if now.depth:
        return last != "," and not _may_end(now.last[-1])
    statement = "\n".join(whole.split("\n")[now.row :]).strip()
    if statement == "try:":
        return False
    return now.last[0].string == "@" or not _parses(statement + " pass" * (last == ":"))


def is_head(text: str) -> bool:
    """Return whether a suggestion ends with the head of a block, whose body is still to be written."""
    return text.rstrip().endswith(":")


def says_again(text: str) -> bool:
    """Return whether a suggestion says a long line, six words in a row or a character again and again."""
    lines = [line for each in text.split("\n") if len(line := "".join(each.split())) >= LONG_LINE]
    words = _WORD.findall(text)
    rows = [tuple(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)]
    run = re.search(rf"([^\W_])\1{{{MOST_ALIKE},}}", text)
    words_again = any(row in rows[at + WORDS :] for at, row in enumerate(rows))
    return run is not None or len({*lines}) < len(lines) or words_again


def imported(before: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a suggestion imports, and the names from them; an empty name for a module alone."""
    for found in IMPORT.finditer(before + text):
        if found.end() <= len(before):
            continue
        if found[3] is not None:
            yield from ((name.split()[0], "") for name in found[3].split(",") if name.strip())
        elif not found[1].startswith("."):
            yield from ((found[1], name.split()[0]) for name in found[2].split(",") if name.strip())


def _read(text: str) -> _Read | None:
    """Read a text; None if a part of it is no token at all."""
    depth, last, ended = 0, list[tokenize.TokenInfo](), False
    try:
        for each in tokenize.generate_tokens(io.StringIO(text).readline):
            if each.type == token.ERRORTOKEN and each.string.strip():
                return _Read(depth, True, last) if _QUOTES.match(each.string) else None
            if each.type in (token.NL, token.COMMENT, token.INDENT, token.DEDENT, token.ENDMARKER):
                continue
            if each.type == token.NEWLINE:
                ended = True
                continue
            last, ended = ([] if ended else last), False
            last.append(each)
            depth += (each.string in "([{") - (each.string in ")]}") if each.type == token.OP else 0
    except tokenize.TokenError as error:
        return _Read(depth, "string" in str(error), last)
    except (IndentationError, SyntaxError):
        return None
    return _Read(depth, False, last)


def _may_end(last: tokenize.TokenInfo) -> bool:
    if last.type == token.OP:
        return last.string in ENDS
    return last.string not in kwlist or last.string in WORDS_THAT_END


def _parses(statement: str) -> bool:
    opened = "if 1: pass\n" if CLAUSE.match(statement) else "try: pass\n" if HANDLER.match(statement) else ""
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(opened + statement)
    except (SyntaxError, ValueError):
        return False
    return True
