"""An open document: its text, and places in it as LSP positions that count code points."""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types


class OutOfRange(Exception):
    """An offset at which no cursor can be."""


@dataclass
class Document:
    """The editor's side of one open file; `version` counts its edits."""

    uri: str
    text: str
    version: int = 0

    def position(self, at: int) -> types.Position:
        """The line and character of an offset; there is none outside the text and none within a CRLF."""
        self._check(at)
        if self._splits_line_end(at):
            raise OutOfRange(f"offset {at} lies within a CRLF")
        before = self.text[:at]
        line = before.count("\n") + before.count("\r") - before.count("\r\n")
        return types.Position(line, at - max(before.rfind("\n"), before.rfind("\r")) - 1)

    def splice(self, at: int, delete: int, insert: str) -> types.TextDocumentContentChangePartial:
        """Replace `delete` code points at `at` by `insert`, and tell the change as LSP does.

        No LSP position lies within a CRLF: a change that begins or ends there is told with the whole of it.
        """
        end = at + delete
        self._check(at)
        self._check(end)
        start, stop, told = at, end, insert
        if self._splits_line_end(start):
            start, told = start - 1, "\r" + told
        if self._splits_line_end(stop):
            stop, told = stop + 1, told + "\n"
        where = types.Range(self.position(start), self.position(stop))
        self.text = self.text[:at] + insert + self.text[end:]
        self.version += 1
        return types.TextDocumentContentChangePartial(range=where, text=told)

    def _check(self, at: int) -> None:
        if not 0 <= at <= len(self.text):
            raise OutOfRange(f"offset {at} is outside the document, which has {len(self.text)} code points")

    def _splits_line_end(self, at: int) -> bool:
        return self.text[at - 1 : at + 1] == "\r\n"
