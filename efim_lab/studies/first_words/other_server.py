"""Asks a language server of editors which names it lists, as an editor does that has both servers."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from lsprotocol import types
from pygls.exceptions import PyglsError
from pygls.lsp.client import LanguageClient

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.typist.lines import TypedLine
from efim_ls.request import ListedNames
from efim_ls.text.document import Document
from efim_ls.text.listed_names import is_whole_list, read_names

PATIENCE = 120.0  # seconds for one answer: a server may first read all of a repository
TYPESCRIPT_PROJECT = '{"compilerOptions": {"module": "esnext", "moduleResolution": "bundler", "strict": true}}'
ENDING = 10.0  # seconds for a server to end
READING = 30  # seconds in which a repository's first list is asked for anew: a server that reads it has none yet
HEADERS = (".h", ".hh", ".hpp", ".hxx")


class OtherServer:
    """A language server's process, started by a `command` in a folder with all documents, and its lists of names.

    Use it as a context manager. Raises WorkError if it cannot be started, or ends.
    """

    def __init__(self, command: str, folder: Path, documents: Sequence[CodeDocument]) -> None:
        self._words, self._folder = shlex.split(command), folder
        self._loop, self._client = asyncio.new_event_loop(), LanguageClient("first-words", "1")
        self._versions = dict[str, int]()  # of open documents, by URI
        self._read = set[str]()  # packages of which a list has come
        self._listed = dict[tuple[str, int], ListedNames | None]()
        for each in documents:
            path = folder / each.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each.text, "utf-8", newline="")
        _add_builds(folder, documents)

    def __enter__(self) -> OtherServer:
        try:
            self._loop.run_until_complete(self._start())
        except (OSError, TimeoutError, PyglsError) as error:
            raise WorkError(f"{self._words[0]} cannot be started: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._end())
        self._loop.close()

    def listed(self, line: TypedLine, _cursor: int) -> ListedNames | None:
        """Return the names listed where a name begins; an editor has them some time after the dot."""
        place = line.document.path, line.start
        if place not in self._listed:
            self._listed[place] = self._loop.run_until_complete(asyncio.wait_for(self._ask(line), PATIENCE))
        return self._listed[place]

    async def _start(self) -> None:
        await self._client.start_io(*self._words)  # pyright: ignore[reportUnknownMemberType]
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(completion=types.CompletionClientCapabilities())
        )
        root = types.WorkspaceFolder(self._folder.as_uri(), self._folder.name)
        await asyncio.wait_for(
            self._client.initialize_async(
                types.InitializeParams(capabilities=capabilities, root_uri=root.uri, workspace_folders=[root])
            ),
            PATIENCE,
        )
        self._client.initialized(types.InitializedParams())

    async def _end(self) -> None:
        """Ask the server to end: if it is merely left, it may wait for ever, and so would this."""
        try:
            await asyncio.wait_for(self._client.shutdown_async(None), ENDING)
            self._client.exit(None)
        except TimeoutError:
            self._client._server.kill()  # pyright: ignore  # noqa: SLF001 - there is no other way to it
        await self._client.stop()

    async def _ask(self, line: TypedLine) -> ListedNames | None:
        uri, text = (self._folder / line.document.path).as_uri(), line.text_at(line.start)
        self._show(uri, line.document.language, text)
        where = types.Position(*Document(uri, line.document.language, text).position(line.start, "utf-16"))
        params = types.CompletionParams(types.TextDocumentIdentifier(uri), where)
        items, is_incomplete = await self._complete(params)
        for _ in range(0 if package_of(line.document) in self._read else READING):
            if items:
                break
            await asyncio.sleep(1)
            items, is_incomplete = await self._complete(params)
        self._read.add(package_of(line.document))
        is_whole = is_whole_list(line.document.language, is_incomplete, len(items))
        plain = [
            {"label": each.label, "kind": each.kind and int(each.kind), "sortText": each.sort_text} for each in items
        ]
        return read_names(plain, line.start, Path(self._words[0]).name, is_whole)

    async def _complete(self, params: types.CompletionParams) -> tuple[Sequence[types.CompletionItem], bool]:
        """Return the items that are listed, and whether typing on lists others."""
        found = await self._client.text_document_completion_async(params)
        if isinstance(found, types.CompletionList):
            return found.items, found.is_incomplete
        return found or (), False

    def _show(self, uri: str, language: str, text: str) -> None:
        version = self._versions[uri] = self._versions.get(uri, 0) + 1
        if version == 1:
            item = types.TextDocumentItem(uri, language, version, text)
            self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            changed = types.VersionedTextDocumentIdentifier(version, uri)
            whole = types.TextDocumentContentChangeWholeDocument(text)
            self._client.text_document_did_change(types.DidChangeTextDocumentParams(changed, [whole]))


def _add_builds(folder: Path, documents: Sequence[CodeDocument]) -> None:
    """Write what a repository's build would say, which held-out data has not: headers' folders, and Go's modules."""
    for package in {package_of(each) for each in documents}:
        files = [Path(each.path) for each in documents if package_of(each) == package]
        flags = sorted({f"-I{folder / path.parent}" for path in files if path.suffix in HEADERS})
        (folder / package / "compile_flags.txt").write_text("\n".join(flags) + "\n")
        if any(path.suffix == ".go" for path in files):
            (folder / package / "go.mod").write_text(f"module {package}\n\ngo 1.19\n")
        if any(path.suffix == ".ts" for path in files):
            (folder / package / "tsconfig.json").write_text(TYPESCRIPT_PROJECT)
