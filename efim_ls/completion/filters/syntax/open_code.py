"""What a piece of code leaves open: brackets, and a string or comment."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CLOSERS = {b"(": b")", b"[": b"]", b"{": b"}"}
# Brackets, line ends, comments and strings; the last group matches in a comment or string that is not closed.
_PARTS = rb'''[][(){}\n]
    | """(?:\\.|(?!""").)*(?:"""|(\Z)) | \'''(?:\\.|(?!\''').)*(?:\'''|(\Z)) | `(?:\\.|[^\\`])*(?:`|(\Z))
    | "(?:\\.|[^\\\n"])*(?:"|(?=\n)|(\Z)) | '(?:\\.|[^\\\n'])*(?:'|(?=\n)|(\Z))'''
_IN_PYTHON = re.compile(rb"\#[^\n]* | " + _PARTS, re.DOTALL | re.VERBOSE)
_ELSEWHERE = re.compile(rb"//[^\n]* | /\*.*?(?:\*/|(\Z)) | " + _PARTS, re.DOTALL | re.VERBOSE)
_OPENING = re.compile(rb"/\*|\"\"\"|'''|.")


@dataclass(frozen=True)
class OpenCode:
    """The starts of lines outside strings, what would close the code, and where a string or comment begins in it
    that is not closed (None without one).
    """

    lines: list[int]
    closers: bytes
    open_string: int | None


def read(code: bytes, python: bool) -> OpenCode:
    """Return what a piece of code leaves open, in Python or in a language with comments as in C."""
    lines, brackets, open_string = [0], list[bytes](), None
    closers = b""
    for part in (_IN_PYTHON if python else _ELSEWHERE).finditer(code):
        text = part[0]
        if text == b"\n":
            lines.append(part.end())
        elif text in _CLOSERS:
            brackets.append(_CLOSERS[text])
        elif brackets and text == brackets[-1]:
            brackets.pop()
        elif part.lastindex and (opening := _OPENING.match(text)):
            open_string = part.start()
            closers = b"*/" if opening[0] == b"/*" else opening[0]
    return OpenCode(lines, closers + b"".join(reversed(brackets)), open_string)
