"""An open document: its text, and LSP positions in it that count code points."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsprotocol import types

LINE_END = re.compile(r"\r\n|\r|\n")


class OutOfRange(Exception):
    """An offset where no cursor can be."""


@dataclass
class HeadlessDocument:
    """The editor's copy of an open file; `version` counts its edits."""

    uri: str
    text: str
    version: int = 0

    @property
    def line_end(self) -> str:
        """What ends its first line, a line feed if it has only one."""
        end = LINE_END.search(self.text)
        return end[0] if end else "\n"

    def position(self, at: int) -> types.Position:
        """Return an offset's line and character; raises OutOfRange outside the text and within a CRLF."""
        self._check(at)
        if self._splits_line_end(at):
            raise OutOfRange(f"offset {at} lies within a CRLF")
        before = self.text[:at]
        line = before.count("\n") + before.count("\r") - before.count("\r\n")
        return types.Position(line, at - max(before.rfind("\n"), before.rfind("\r")) - 1)

    def offset(self, line: int, character: int) -> int:
        """Return the offset of a position in the text."""
        starts = [0, *(end.end() for end in LINE_END.finditer(self.text))]
        return starts[line] + character

    def splice(self, at: int, delete: int, insert: str) -> types.TextDocumentContentChangePartial:
        """Replace `delete` code points at `at` by `insert`; return the change as LSP describes it.

        No LSP position lies within a CRLF, so a change that begins or ends there is widened to the whole CRLF.
        """
        end = at + delete
        self._check(at)
        self._check(end)
        start, stop, reported = at, end, insert
        if self._splits_line_end(start):
            start, reported = start - 1, "\r" + reported
        if self._splits_line_end(stop):
            stop, reported = stop + 1, reported + "\n"
        where = types.Range(self.position(start), self.position(stop))
        self.text = self.text[:at] + insert + self.text[end:]
        self.version += 1
        return types.TextDocumentContentChangePartial(range=where, text=reported)

    def _check(self, at: int) -> None:
        if not 0 <= at <= len(self.text):
            raise OutOfRange(f"offset {at} is outside the document, which has {len(self.text)} code points")

    def _splits_line_end(self, at: int) -> bool:
        return self.text[at - 1 : at + 1] == "\r\n"
