"""A client whose workspace has other files: documents that are edited, and calls in files that follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from efim_ls.languages.table import language_of
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.next_edits import EditOffers, OfferedEdit
from efim_ls.session.workspace import SessionWorkspace
from efim_ls.text.document import Change
from efim_ls.text.lines import enclosing_line
from efim_ls.usage.counters import Counters
from efim_ls.workspace.imports.paths import IndexedFiles
from efim_ls.workspace.index_file import IndexFile
from efim_ls.workspace.shared import SharedIndexes
from tests.unit.edited import Marked
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZERS, indexed
from tests.waiting import Clock


class AnsweredAtOnce(SessionWorkspace):
    """A workspace whose index is asked here, not on a thread; files named `hidden` may not be shown."""

    def __init__(self, documents: OpenDocuments, folder: Path, files: Collection[str]) -> None:
        super().__init__(documents, SharedIndexes(lambda: False), lambda _: None)
        index = IndexFile(None, ORIGIN, TOKENIZERS, pytest.fail, "outlines")
        paths = [folder / each for each in files if language_of(each)]
        index.put([indexed(str(path), path.read_text("utf-8"), language_of(path.name)) for path in paths])
        self.read, self.asked = list[str](), 0
        self.files = IndexedFiles(index, list(map(str, paths)), lambda path: "hidden" not in path, self._text)
        self.meanwhile = lambda: None

    def _text(self, path: str) -> str | None:
        self.read.append(Path(path).name)
        return Path(path).read_text("utf-8")

    async def _ask(self, question: Any) -> Any:
        steps, self.asked = question(self.files), self.asked + 1
        while True:
            try:
                next(steps)
            except StopIteration as end:
                self.meanwhile()
                return end.value


class Elsewhere:
    """The documents, and what is offered in them."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        """Write files, and make the changes that are marked in them, each file's in the order of its text."""
        self.folder, marked = folder, {name: Marked.read(text) for name, text in files.items()}
        for name, each in marked.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(each.before.encode())
        self.counters = Counters()
        self.documents, self.clock = OpenDocuments(), Clock()
        self.workspace = AnsweredAtOnce(self.documents, folder, files)
        self.offers = EditOffers(self.documents, self.counters, self.workspace)
        self.edited = ""
        for name, each in marked.items():
            shift = 0
            for change in each.changes:
                self.replace(name, change.at + shift, len(change.removed), change.added)
                shift += len(change.added) - len(change.removed)

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str) -> OpenDocument:
        """The document of a file, which is opened if it is not yet."""
        if (document := self.documents.get(self.uri(name))) is None:
            text = (self.folder / name).read_bytes().decode()
            document = OpenDocument(self.counters, self.uri(name), language_of(name), text, version=1)
            self.documents.add(document)
        return document

    def replace(self, name: str, at: int, removed: int, added: str, pause: float = 1.0) -> None:
        document, self.edited = self.open(name), name
        start, end = (document.position(each, "utf-32") for each in (at, at + removed))
        self.clock.now += pause
        self.documents.edit(document, Change(added, start, end, "utf-32"), self.clock.now)
        document.cursor = at + len(added)

    async def offered(self, name: str = "") -> OfferedEdit | None:
        """What is offered in a document, by default in the one that was edited last."""
        document = self.open(name or self.edited)
        return await self.offers.find(document, document.cursor or 0)

    async def drawn(self, name: str = "") -> str:
        """The same, as its file's name and the line, with its marks; empty if there is nothing."""
        if (offer := await self.offered(name)) is None:
            return ""
        edit, text = offer.edit, offer.document.text
        assert edit.rule == "signature" and text[edit.start : edit.end] == edit.removed
        start, end, _ = enclosing_line(text, edit.start)
        marks = (f"[-{edit.removed}-]" if edit.removed else "") + (f"{{+{edit.added}+}}" if edit.added else "")
        where = Path(edit.uri.removeprefix(self.folder.as_uri() + "/"))
        return f"{where}: {(text[start : edit.start] + marks + text[edit.end : end]).strip()}"

    async def take(self) -> OfferedEdit | None:
        """Make the edit that is offered, as a client does, which goes there first."""
        if offer := await self.offered():
            name = offer.edit.uri.removeprefix(self.folder.as_uri() + "/")
            self.replace(name, offer.edit.start, len(offer.edit.removed), offer.edit.added)
            self.offers.accept(offer.number)
        return offer
