"""The workspace's other files as one session uses them: the index, and the inputs of requests from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from efim_ls.access.rules import Rules
from efim_ls.completion.suggestions.levels import UNSURE
from efim_ls.languages.table import LANGUAGES, family_of
from efim_ls.paths import real_path
from efim_ls.request import Answer, ListedNames, Names, Request
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.engine_thread import EngineClient, EngineThread
from efim_ls.settings import Settings
from efim_ls.text.document import Document
from efim_ls.text.outline import Importable
from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.imports.calling import CalledDefinition, CallingFile, find_call
from efim_ls.workspace.imports.importable import find_imports
from efim_ls.workspace.imports.parameters import find_parameters
from efim_ls.workspace.imports.paths import IndexedFiles, ReferringFile
from efim_ls.workspace.index import Question, Scope
from efim_ls.workspace.modules.document import REACH, called_at
from efim_ls.workspace.modules.environment import find_environment
from efim_ls.workspace.modules.table import ModuleTable
from efim_ls.workspace.overlay import IndexStatus
from efim_ls.workspace.shared import IndexClient, SharedIndexes

if TYPE_CHECKING:
    from efim_ls.completion.completer import Completer

SETTLING = 600.0  # seconds that indexing may take before `settled` is answered anyway
FINDING = 3.0  # seconds after which nobody waits for what other files tell any more
STILL_TYPING = 0.3  # seconds after a key in which another key is likely: indexes wait

T = TypeVar("T")


def shared_indexes(engine: EngineThread) -> SharedIndexes:
    """Return indexes for the clients of an engine thread, which wait while one of their users is typing."""
    client = EngineClient(engine)
    return SharedIndexes(lambda: client.is_typing(STILL_TYPING))


class SessionWorkspace:
    """The files of a session's workspace folders. Used on the event loop only.

    `folders` are the URIs of the client's workspace folders. `on_status` is called on the index's thread when its
    state changes.
    """

    def __init__(
        self, documents: OpenDocuments, indexes: SharedIndexes, chosen: Callable[[OpenDocument], None]
    ) -> None:
        """Index nothing yet; call `chosen` with the document in use once its prompts may show other text."""
        self.folders: tuple[str, ...] = ()
        self.on_status: Callable[[IndexStatus], None] = lambda _: None
        self._documents, self._chosen = documents, chosen
        self._index = IndexClient(indexes, lambda status: self.on_status(status), self._context_changed)
        self._loop: asyncio.AbstractEventLoop | None = None  # known once there is an index
        self._modules: ModuleTable | None = None  # of these folders
        self._module_folders: list[Path] = []

    @property
    def status(self) -> IndexStatus | None:
        """The state of the index, None without one."""
        return self._index.status

    def adopt(self, settings: Settings, rules: Rules, completer: Completer | None) -> bool:
        """Index the folders by settings, rules and the model in use; return whether that is another scope."""
        tokenizers = completer.tokenizers if completer else None
        context = completer.context_budget if completer else ()
        folders = [Path(path) for uri in self.folders if (path := real_path(uri))]
        if self._modules is None or folders != self._module_folders:
            self._module_folders, self._modules = folders, ModuleTable(partial(find_environment, folders))
            for document in self._documents:
                self._learn_modules(document)
        wanted = folders and settings.enabled and settings.other_files != "off"
        scope = Scope.of(settings, rules, folders, tokenizers, context) if wanted and tokenizers else None
        if not self._index.adopt(scope):
            return False
        self._loop = asyncio.get_running_loop()
        for document in self._documents:
            self.index_document(document)
        return True

    def watch(self) -> None:
        """Watch the files here from the next scope on, because the client does not."""
        self._index.watches = True

    def refresh(self, uris: Iterable[str]) -> None:
        """Read files again that changed on disk."""
        self._index.refresh([path for uri in uris if (path := real_path(uri))])

    def index_document(self, document: OpenDocument) -> None:
        """Count an open document's text in place of its file's, and learn its imports, if the rules let others
        read it.
        """
        if document.path and self._documents.may_be_read(document):
            self._index.open(document.path, document.language, document.public)
        self._learn_modules(document)

    def close_document(self, document: OpenDocument) -> None:
        """Count a document's file again in place of the text that was open."""
        if document.path:
            self._index.close_document(document.path)

    def request_ahead(self, document: OpenDocument, cursor: int) -> Request:
        """Return what a prompt at a place is made of, without what only an answer needs."""
        above, below = self._documents.cells_around(document)
        text = f"{above}{document.public}{below}" if above or below else document.public
        request = Request(document.uri, text, len(above) + cursor, language=document.language)
        if document.parts is not None and not above and not below:
            request = request.at_part(document.parts.at(document.text, cursor))
        if not (context := self._index.context).shows:
            return request
        return replace(request, context=context.at(document.path, cursor), excluded_files=context.excluded_files)

    def request_at(self, document: OpenDocument, cursor: int) -> Request:
        """Return the inputs of an answer at a place other than the prompt: other texts and counts over files."""
        request = self.request_ahead(document, cursor)
        others = self._documents.others(document, request.language)
        family = document.family if request.part is None else family_of(request.language)
        counts = self._index.view(family, [each.path for each in (document, *others)])
        texts = tuple(each.public for each in others)
        modules = self._modules.view if self._modules and LANGUAGES[document.language].reads_modules else None
        listed = document.listed_at(cursor, request.cursor - cursor)
        return replace(request, others=texts, counts=counts, modules=modules, listed=listed)

    def retrieve_if_unsure(self, document: OpenDocument, request: Request, answer: Answer) -> None:
        """Look for code that may help where the model is unsure; prompts show it once the cursor rests."""
        is_unsure = answer.confidence is not None and answer.confidence < UNSURE
        if is_unsure and self._index.context.looks_up and document.path and self._documents.may_be_read(document):
            edits = self._documents.edited(document)
            self._index.retrieve(RetrievalPlace(document.path, request.text, request.cursor, edits))

    async def find_imports(self, document: OpenDocument, names: Sequence[str]) -> Sequence[Importable]:
        """Return how a document would import names that it lacks, if that is found soon."""
        if not document.path or not self._documents.may_be_read(document):
            return ()
        file = ReferringFile(document.path, document.language, document.text)
        return await self._ask(lambda files: find_imports(files, file, names)) or ()

    async def find_call(
        self, definition: CalledDefinition, only: str, look: Callable[[Document, str], T | None]
    ) -> T | None:
        """Look for a call of a definition in other files, only in the file at `path` if that is given.

        `look` is called on the index's thread with the text of a file and the module that it may name in front of
        calls; its result is returned if it comes soon.
        """
        readable = [each for each in self._documents if each.path and self._documents.may_be_read(each)]
        uris, opened = {each.path: each.uri for each in readable}, {each.path: each.text for each in readable}

        def look_at(file: CallingFile) -> T | None:
            uri = uris.get(file.path) or Path(file.path).as_uri()
            return look(Document(uri, file.language, file.text), file.module)

        return await self._ask(lambda files: find_call(files, definition, opened, only, look_at))

    def list_keywords(self, document: OpenDocument, ask_again: Callable[[str], None] | None) -> None:
        """List the keywords that a call at the cursor takes, once for an argument; the client may have to ask again.

        However late they are found, they count unless the text has changed in front of them. Nothing is listed in
        place of another server's names.
        """
        before = document.text[max(0, (cursor := document.cursor or 0) - REACH) : cursor]
        call = called_at(before) if LANGUAGES[document.language].reads_modules else None
        if call is None or not document.path or not self._documents.may_be_read(document):
            return
        start, version = cursor - len(call.stub), document.version
        if document.listed_for == (call.callee, start) or document.listed_at(cursor, 0) is not None:
            return
        document.listed_for = call.callee, start
        callee, loop = call.callee.rpartition(".")[2], asyncio.get_running_loop()
        calling = ReferringFile(document.path, document.language, document.text)

        def find(files: IndexedFiles) -> Generator[None, None, Sequence[str]]:
            yield
            return find_parameters(files, calling, callee)

        def take(found: Sequence[str]) -> None:
            names = Names(dict.fromkeys(found, "value"), is_open=True).without(call.given)
            listed = ListedNames(start, "keyword", names, owner=callee)
            # Another server may have answered meanwhile.
            is_free = bool(found) and document.listed_at(start, 0) is None
            if is_free and document.list_names(listed, version) and ask_again:
                ask_again(document.uri)

        def found(names: Sequence[str]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(take, names)

        self._index.ask(find, found, waits_for_pause=False)

    async def _ask(self, question: Question[T]) -> T | None:
        """Ask the index, and wait for its answer; None if there is none soon."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def found(result: T) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lambda: answer.done() or answer.set_result(result))

        if not self._index.ask(question, found):
            return None
        try:
            return await asyncio.wait_for(answer, FINDING)
        except TimeoutError:
            return None

    async def settled(self) -> None:
        """Wait until all files are indexed, and the modules known that documents import."""
        await asyncio.to_thread(self._index.wait, SETTLING)
        if self._modules:
            await asyncio.to_thread(self._modules.wait, SETTLING)

    def close(self, seconds: float) -> bool:
        """Leave the index; return false if its thread should end and is still running after `seconds`."""
        return self._index.close(seconds)

    def _learn_modules(self, document: OpenDocument) -> None:
        """Learn the names of the modules that a document imports."""
        if self._modules and LANGUAGES[document.language].reads_modules and self._documents.may_be_read(document):
            self._modules.want(document.path, document.text)

    def _context_changed(self) -> None:
        """Report the document in use to the event loop; called on the index's thread."""

        def report() -> None:
            if document := self._documents.last_used:
                self._chosen(document)

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(report)
