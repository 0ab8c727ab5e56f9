"""An editor without a screen: opens and edits documents and asks a language server for completions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from editor_clients.headless.connection import Connection, ServerDied, ServerError
from editor_clients.headless.document import HeadlessDocument

CAPABILITIES = types.ClientCapabilities(
    general=types.GeneralClientCapabilities(
        position_encodings=[types.PositionEncodingKind.Utf32, types.PositionEncodingKind.Utf16]
    ),
    text_document=types.TextDocumentClientCapabilities(
        synchronization=types.TextDocumentSyncClientCapabilities(),
        inline_completion=types.InlineCompletionClientCapabilities(),
    ),
    window=types.WindowClientCapabilities(work_done_progress=True),
)


@dataclass(frozen=True)
class Completion:
    """The server's suggestion at a cursor, its costs, and the `reason` if `text` is empty.

    `confidence` is the model's probability of `text` or, if that is empty, of its first word; None if not known.
    `ahead` counts what has been computed ahead of need since the server started.
    """

    text: str
    costs: dict[str, Any]
    ahead: dict[str, Any]
    reason: str | None
    confidence: float | None
    command: types.Command | None = None


@dataclass(frozen=True)
class NextEdit:
    """An edit that the server offers: the code points from `start` to `end` of a document become `text`."""

    uri: str
    start: int
    end: int
    text: str
    number: str


class Editor:
    """Open documents and the server that completes them; offsets count code points."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._documents: dict[str, HeadlessDocument] = {}

    def is_open(self, uri: str) -> bool:
        """Return whether a document is open."""
        return uri in self._documents

    def text(self, uri: str) -> str:
        """Return the text of an open document."""
        return self._documents[uri].text

    def line_end(self, uri: str) -> str:
        """Return the line ending of an open document."""
        return self._documents[uri].line_end

    def open(self, uri: str, text: str, language: str) -> None:
        """Open a document; if it is open already, close it first."""
        if uri in self._documents:
            self.close(uri)
        self._documents[uri] = HeadlessDocument(uri, text)
        item = types.TextDocumentItem(uri, language, 0, text)
        self._connection.tell(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))

    def edit(self, uri: str, at: int, delete: int, insert: str) -> None:
        """Replace `delete` code points at `at` by `insert`."""
        document = self._documents[uri]
        change = document.splice(at, delete, insert)
        name = types.VersionedTextDocumentIdentifier(document.version, uri)
        params = types.DidChangeTextDocumentParams(name, [change])
        self._connection.tell(types.TEXT_DOCUMENT_DID_CHANGE, params)

    def close(self, uri: str) -> None:
        """Close a document."""
        del self._documents[uri]
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        self._connection.tell(types.TEXT_DOCUMENT_DID_CLOSE, params)

    def move(self, uri: str, at: int) -> None:
        """Report that the cursor moved to `at` without an edit."""
        self._connection.tell("efim/didMoveCursor", self._place(uri, at))

    def focus(self, uri: str) -> None:
        """Report that a document got the focus."""
        self._connection.tell("textDocument/didFocus", {"textDocument": {"uri": uri}})

    async def settled(self) -> None:
        """Wait until no work is queued or running, prefetching included."""
        await self._connection.ask("efim/settled", {})

    async def complete(self, uri: str, at: int) -> Completion:
        """Request a completion at `at` as typing does, and its costs."""
        item = await self.suggestion(uri, at)
        try:
            stats = await self.stats()
        except ServerDied:
            raise
        except ServerError:  # a suggestion is worth having without its costs
            stats: dict[str, Any] = {"last": {}, "ahead": {}, "last_reason": None, "last_confidence": None}
        costs, ahead, confidence = stats["last"], stats["ahead"], stats["last_confidence"]
        if item is None:
            return Completion("", costs, ahead, stats["last_reason"], confidence)
        text = item.insert_text if isinstance(item.insert_text, str) else item.insert_text.value
        return Completion(text, costs, ahead, None, confidence, item.command)

    async def suggestion(self, uri: str, at: int) -> types.InlineCompletionItem | None:
        """Request a suggestion as typing does, without its costs."""
        params = types.InlineCompletionParams(
            types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
            types.TextDocumentIdentifier(uri),
            self._documents[uri].position(at),
        )
        result = await self._connection.ask(types.TEXT_DOCUMENT_INLINE_COMPLETION, params)
        return result.items[0] if result and result.items else None

    async def accept(self, command: types.Command, length: int | None = None) -> None:
        """Report that a suggestion, or its first `length` code points, was accepted."""
        arguments = [*(command.arguments or ()), *([] if length is None else [length])]
        await self._execute(command.command, *arguments)

    async def next_edit(self, uri: str, at: int, open_file: Callable[[str], None]) -> NextEdit | None:
        """Request the next edit where the cursor is at `at`, and report it as shown.

        `open_file` opens the document with a URI: an edit in a file that is not open is asked for again once it is.
        """
        place = self._place(uri, at)
        document = {"uri": uri, "version": self._documents[uri].version}
        asked = {**place, "textDocument": document, "otherFiles": True}
        for edit in (await self._connection.ask("textDocument/copilotInlineEdit", asked))["edits"]:
            if (where := edit["textDocument"]["uri"]) not in self._documents:
                open_file(where)
                return await self.next_edit(uri, at, open_file)
            document = self._documents[where]
            start, end = (
                document.offset(each["line"], each["character"])
                for each in (edit["range"]["start"], edit["range"]["end"])
            )
            self._connection.tell("textDocument/didShowInlineEdit", {"item": {"command": edit["command"]}})
            return NextEdit(document.uri, start, end, edit["text"], edit["command"]["arguments"][0])
        return None

    async def accept_edit(self, edit: NextEdit) -> None:
        """Make a next edit and report that it was accepted."""
        self.edit(edit.uri, edit.start, edit.end - edit.start, edit.text)
        await self._execute("efim-ls.acceptNextEdit", edit.number)

    async def refuse_edit(self, edit: NextEdit) -> None:
        """Report that a next edit is not wanted."""
        await self._execute("efim-ls.refuseNextEdit", edit.number)

    async def stats(self) -> dict[str, Any]:
        """Return the server's counters and the costs of its last answer."""
        return await self._connection.ask("efim/stats", {})

    async def status(self) -> dict[str, Any]:
        """Return the answer to `efim/status`."""
        return await self._connection.ask("efim/status", {})

    async def notice(self, uri: str) -> str | None:
        """Return a sentence on special suggestions in a document, or None."""
        return (await self._connection.ask("efim/status", {"textDocument": {"uri": uri}}))["notice"]

    async def explain(self, uri: str, at: int) -> dict[str, Any]:
        """Return the prompt that a completion at `at` would use, and its costs."""
        return await self._connection.ask("efim/explain", self._place(uri, at))

    async def ask(self, method: str) -> Any:
        """Return the answer to one of the server's own requests."""
        return await self._connection.ask(method, {})

    async def _execute(self, command: str, *arguments: object) -> None:
        params = types.ExecuteCommandParams(command, list(arguments))
        await self._connection.ask(types.WORKSPACE_EXECUTE_COMMAND, params)

    def _place(self, uri: str, at: int) -> dict[str, object]:
        position = self._documents[uri].position(at)
        where = {"line": position.line, "character": position.character}
        return {"textDocument": {"uri": uri}, "position": where}


@asynccontextmanager
async def editor(
    settings: Mapping[str, object], kind: type[Connection] = Connection, folder: Path | None = None
) -> AsyncIterator[Editor]:
    """Start a server that works in a folder and yield an editor once its model is ready; raises ServerError."""
    connection = kind()
    await connection.launch()
    try:
        await _initialize(connection, settings, folder)
        await _model_ready(connection)
        yield Editor(connection)
    finally:
        await connection.close()


async def _initialize(connection: Connection, settings: Mapping[str, object], folder: Path | None) -> None:
    folders = [types.WorkspaceFolder(folder.as_uri(), folder.name)] if folder else None
    params = types.InitializeParams(CAPABILITIES, initialization_options=dict(settings), workspace_folders=folders)
    answer: types.InitializeResult = await connection.ask(types.INITIALIZE, params)
    if answer.capabilities.position_encoding != types.PositionEncodingKind.Utf32:
        raise ServerError("the server cannot count code points")
    connection.tell(types.INITIALIZED, types.InitializedParams())


async def _model_ready(connection: Connection) -> None:
    while (status := await connection.ask("efim/status", {}))["state"] == "loading":
        await connection.news.wait()
        connection.news.clear()
    if status["state"] == "error" or status["fallback"]:  # a script asks for one model and no other
        raise ServerError(status["fallback"] or status["message"])
