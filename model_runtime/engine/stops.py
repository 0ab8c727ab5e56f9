"""Where a suggestion ends: at the end of its line or block, or at the code right of the cursor on its line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

OPENERS = (":", "(", "[", "{")
CLOSING = ")]}>\"'`"
PUNCTUATION = CLOSING + ",;:"
# Characters of the rest that a text must repeat; fewer show more that is wrong, more less that is right.
EVIDENCE_LENGTH = 4

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ONLY_PUNCTUATION = re.compile(rf"[\s{re.escape(PUNCTUATION)}]*")


class Rule(Protocol):
    """Where a suggestion ends."""

    def cut(self, text: str, /) -> int | None:
        """Return the length of the finished suggestion at the start of `text`, or None while it may go on."""
        ...


@dataclass(frozen=True)
class StopRule:
    """Where a suggestion ends: at the end of its line or of its indented block, or at code that follows it.

    `rest` is that code, right of the cursor on its line, or empty; before code, a suggestion has one line. `indent`
    is the least indentation, in columns, of the block's lines; a line that begins with a closing bracket may be
    indented less, and is the last of the block.
    """

    multiline: bool
    indent: int
    max_lines: int
    rest: str = ""

    def cut(self, text: str) -> int | None:
        r"""Return the length of the finished suggestion at the start of `text` (lines end in \n), or None.

        None means that it may go on. The length includes what the text repeats of the rest, the evidence for the end.
        A control character is no part of any: it stands for what must not be repeated, or a server made it up.
        """
        control = _CONTROL.search(text)
        end = self._end(text[: control.start()] if control else text)
        return control.start() if control and end is None else end

    def _end(self, text: str) -> int | None:
        lines = text.split("\n")
        if self.rest and (met := find_rest(lines[0], self.rest)) is not None:
            return met + len(evidence(self.rest))
        if not self.multiline:
            return len(lines[0]) if len(lines) > 1 else None
        for i in range(1, len(lines)):
            if self._is_outside(lines, i):
                return len("\n".join(lines[:i]))
            if self._closes(lines[i]) and i + 1 < len(lines):
                return len("\n".join(lines[: i + 1]))
        return None

    def _is_outside(self, lines: list[str], i: int) -> bool:
        line, ended = lines[i].strip(), i + 1 < len(lines)
        if i >= self.max_lines or (i > 1 and ended and not line and not lines[i - 1].strip()):
            return True
        return bool(line) and indent_width(lines[i]) < self.indent and not self._closes(lines[i])

    def _closes(self, line: str) -> bool:
        return line.strip()[:1] in tuple(")]}") and indent_width(line) < self.indent


def stop_rule(before: str, rest: str, explicit: bool, max_lines: int) -> StopRule:
    """Return the rule for a cursor's line: several lines if it is blank, if it opens a block, or on demand.

    `before` and `rest` are the text of the line on either side of the cursor. If the rest is code and not
    only closers, a suggestion is one line and ends where it repeats the rest.
    """
    ending, code = before.rstrip(), "" if is_closers(rest) else rest
    several = not code and (explicit or not ending or _opens_block(ending))
    return StopRule(several, indent_width(before) + ending.endswith(OPENERS), max_lines, code)


def _opens_block(line: str) -> bool:
    """Return whether a line ends with a block's opener, outside of a signature, a call or a literal."""
    opened, closed = (sum(map(line[:-1].count, brackets)) for brackets in ("([{", ")]}"))
    return line.endswith((":", "{")) and opened == closed


def indent_width(line: str) -> int:
    """Return the indentation of a line in columns; a tab reaches to the next multiple of four."""
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def is_closers(rest: str) -> bool:
    """Return whether the rest of a line is blank or only closers and punctuation, and so stays out of the prompt."""
    return _ONLY_PUNCTUATION.fullmatch(rest) is not None


def evidence(rest: str) -> str:
    """Return the beginning of a line's rest that a text must repeat to count as having reached it."""
    return rest.rstrip()[:EVIDENCE_LENGTH]


def find_rest(text: str, rest: str) -> int | None:
    """Return where a text first repeats the beginning of `rest` (not blank) outside a word, or None.

    Names are cut where their parts join: after an underscore `rest` may begin.
    """
    beginning = evidence(rest)
    at = text.find(beginning)
    while at > 0 and text[at - 1].isalnum() and beginning[0].isalnum():
        at = text.find(beginning, at + 1)
    return at if at >= 0 else None


def text_before_rest(text: str, rest: str) -> str:
    """Return the first line of a text up to where it repeats the code `rest`, or nothing if it never does."""
    line = text.split("\n", 1)[0]
    return line[: find_rest(line, rest) or 0]
