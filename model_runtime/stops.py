"""When a suggestion is complete, judged on its text."""

from __future__ import annotations

from dataclasses import dataclass

OPENERS = (":", "(", "[", "{")


@dataclass(frozen=True)
class StopRule:
    """Where a suggestion ends: at the end of its line, or of its indented block.

    `indent` is the least indentation, in columns, of the lines that belong to the block; a line that begins with a
    closing bracket may stand further out and ends the block with it.
    """

    multiline: bool
    indent: int
    max_lines: int

    def cut(self, text: str) -> int | None:
        r"""Length of the finished suggestion at the start of `text` (lines end in \n), None while it may go on."""
        lines = text.split("\n")
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
        return bool(line) and width(lines[i]) < self.indent and not self._closes(lines[i])

    def _closes(self, line: str) -> bool:
        return line.strip()[:1] in tuple(")]}") and width(line) < self.indent


def stop_rule(before: str, explicit: bool, rest_closes: bool, max_lines: int) -> StopRule:
    """Choose by the cursor's line: several lines where it is blank, where it opens a block, or on demand.

    `before` is the text of the line before the cursor. Where code follows the cursor on its line (`rest_closes`
    false) a suggestion is always the rest of one line.
    """
    ending = before.rstrip()
    several = explicit or not ending or _opens_block(ending)
    return StopRule(rest_closes and several, width(before) + ending.endswith(OPENERS), max_lines)


def _opens_block(line: str) -> bool:
    """Whether a line ends with a block's opener, and not in the middle of a signature, a call or a literal."""
    opened, closed = (sum(map(line[:-1].count, brackets)) for brackets in ("([{", ")]}"))
    return line.endswith((":", "{")) and opened == closed


def width(line: str) -> int:
    """Indentation of a line in columns, a tab reaching to the next multiple of four."""
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
