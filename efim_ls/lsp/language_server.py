"""One client's connection: its settings, its status, the model's loading progress, and messages to the user."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

import psutil
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcParseError
from pygls.lsp.server import LanguageServer

from efim_ls.lsp.protocol import (
    DID_CHANGE_STATUS,
    DID_IMPROVE_SUGGESTION,
    NOTEBOOKS,
    EfimProtocol,
    changes_of,
    converter,
    language_and_text,
    version_of,
)
from efim_ls.session.documents import OpenDocument
from efim_ls.session.session import Session
from efim_ls.settings import parse
from efim_ls.text.document import Encoding
from efim_ls.version import installed_version
from efim_ls.workspace.overlay import IndexStatus

NOTICEABLE = 0.1  # seconds after which a user notices that a request is running
OUT_OF_STEP = (
    "the editor sent an edit that cannot be understood, so its document gets no suggestions: save it, or close and "
    "reopen it"
)

PARENT_INTERVAL = 3.0  # seconds between looks at the editor's process, as other servers take

Send = Callable[[dict[str, object]], None]
logger = logging.getLogger(__name__)


class StatusReporter:
    """Tracks running work and reports changes. Used on the event loop only; sends nothing while idle."""

    def __init__(self, session: Session, send: Send) -> None:
        """Send changes with `send` once `wanted` is true."""
        self.wanted = False
        self._session, self._send = session, send
        self._percentage: int | None = None
        self._slow = 0  # running requests that have become noticeable
        self._sent: dict[str, object] | None = None

    def status(self, uri: str | None = None) -> dict[str, object]:
        """Return whether completions are available, in one document if given, what runs, and the counters."""
        session = self._session
        off = session.documents.why_off(uri) if uri is not None else None
        return {
            **session.describe(session.requests.language_at_cursor(uri) if uri is not None else ""),
            **({"state": "off", "message": off.why} if off else {}),
            "notice": session.requests.notice(uri) if uri is not None and off is None else None,
            "busy": self._slow > 0,
            "percentage": self._percentage,
            "last": session.counters.last,
            "typical_ms": session.counters.typical_ms,
            "counters": session.counters.suggestions,
        }

    @contextmanager
    def request(self) -> Generator[None]:
        """Report the server as busy while a request takes noticeably long, and again when it ends."""
        noticed = False

        def notice() -> None:
            nonlocal noticed
            noticed = True
            self._slow += 1
            self.changed()

        timer = asyncio.get_running_loop().call_later(NOTICEABLE, notice)
        try:
            yield
        finally:
            timer.cancel()
            self._slow -= noticed
            self.changed()

    def loaded(self, percentage: int | None) -> None:
        """Report how much of a model is loaded, in percent; None if none is being loaded."""
        self._percentage = percentage
        self.changed()

    def changed(self) -> None:
        """Report a change, if there is one, after all pending callbacks of the event loop."""
        if self.wanted:
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        status = self.status()
        if status != self._sent:
            self._sent = status
            self._send(status)


class EfimServer(LanguageServer):
    """One client's connection and its session; shows messages only if the user can act on them."""

    def __init__(self, session: Session, end: Callable[[int], None]) -> None:
        """Call `end` with an exit code when there is a reason to end."""
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "efim-ls",
            installed_version("efim-ls") or "not installed",
            protocol_cls=EfimProtocol,
            converter_factory=converter,
            notebook_document_sync=NOTEBOOKS,
        )
        self.session = session
        self.documents, self.offers, self.background = session.documents, session.offers, session.background
        self.status_reporter = StatusReporter(session, partial(self._notify, DID_CHANGE_STATUS))
        session.workspace.on_status = self._on_index_status
        self.initial_settings: object = None
        self.client_name = "a client without a name"
        self.encoding: Encoding = "utf-16"  # the unit of the client's positions, negotiated in `initialize`
        self.end = end
        self.loop: asyncio.AbstractEventLoop
        self._parent: asyncio.Task[None] | None = None
        self._shown: set[str] = set()
        self._indexing: asyncio.Queue[tuple[str, int] | None] | None = None  # reports to show while files are read
        self._shows_index: asyncio.Task[None] | None = None

    @property
    def folders(self) -> list[str]:
        """URIs of the workspace folders; an old client has only its root."""
        root = self.workspace.root_uri
        return [folder.uri for folder in self.workspace.folders.values()] or ([root] if root else [])

    def watch_parent(self, pid: int | None) -> None:
        """End once the editor's process has, as the protocol asks; without a usable id the input's end must do."""
        if pid is not None and pid > 0:
            self._parent = asyncio.ensure_future(self._end_after(pid))

    async def _end_after(self, pid: int) -> None:
        await _gone(pid)
        logger.error("the editor's process has ended: the server ends")
        self.end(1)

    async def leave(self, seconds: float) -> None:
        """End the session of a client that has gone, in a process that serves others."""
        for task in (self._parent, self._shows_index):
            if task is not None:
                task.cancel()
        await self.session.leave(seconds)

    def report_server_error(self, error: Exception, source: object) -> None:
        """Answer input that is not JSON with an error; show no popup, because pygls has logged the error."""
        if isinstance(error, (ValueError, RecursionError)):
            cast(EfimProtocol, self.protocol).refuse(None, JsonRpcParseError())

    def watch_files(self) -> None:
        """Ask the client to report files that change on disk, or watch them here if it does not offer that."""
        workspace = self.client_capabilities.workspace
        offered = workspace.did_change_watched_files if workspace else None
        if not (offered and offered.dynamic_registration):
            self.session.watch_files()
            return
        everything = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher("**/*")])
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        self.client_register_capability(
            types.RegistrationParams([types.Registration(str(uuid.uuid4()), method, everything)])
        )

    async def configure(self, settings: object) -> None:
        """Merge settings over the initial ones, show each problem once, and load the model if they need another."""
        parsed, problems = parse(self.initial_settings, settings)
        for problem in problems:
            self._show_once(types.MessageType.Warning, problem)
        load = self.session.configure(parsed)
        self.status_reporter.changed()
        if load:
            await self._load_model()

    async def _load_model(self) -> None:
        loop = asyncio.get_running_loop()
        reports: asyncio.Queue[tuple[str, int] | None] = asyncio.Queue()

        def progress(message: str, percent: int) -> None:
            loop.call_soon_threadsafe(reports.put_nowait, (message, percent))
            loop.call_soon_threadsafe(self.status_reporter.loaded, percent)

        async def load() -> None:
            self.status_reporter.loaded(0)
            await self.session.load(progress)
            reports.put_nowait(None)
            self._report_outcome()

        await asyncio.gather(load(), self._show_progress(reports, "efim-ls: loading the model"))

    def _report_outcome(self) -> None:
        """Show why the configured model is not in use; log the chosen model and the reason."""
        status = self.session.status
        if status.state != "loading":  # else another model is already being loaded
            self.status_reporter.loaded(None)
        if status.state == "error" or (status.state == "ready" and status.fallback):
            self._show_once(types.MessageType.Error, status.message)
        if status.state == "ready":
            choices = "; ".join(f"{name}: {value}" for name, value in self.session.describe().items())
            self.window_log_message(types.LogMessageParams(types.MessageType.Info, f"efim-ls: {choices}"))

    def send_improved(self, uri: str) -> None:
        """Tell the client that a better suggestion has come in a document, which answers it when it asks again."""
        self._notify(DID_IMPROVE_SUGGESTION, {"textDocument": {"uri": uri}})

    def _notify(self, method: str, params: dict[str, object]) -> None:
        if not cast(EfimProtocol, self.protocol).is_shut_down:
            self.protocol.notify(method, params)

    def _on_index_status(self, status: IndexStatus) -> None:
        """Pass the index's state to the event loop, from the index's thread."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._show_index, status)

    def _show_index(self, status: IndexStatus) -> None:
        """Show how far the index is, from its beginning to its end, unless it is ready at once."""
        self.status_reporter.changed()
        if status.state == "ready":
            if self._indexing is not None:
                self._indexing.put_nowait(None)
                self._indexing = None
            return
        if self._indexing is None:
            self._indexing = asyncio.Queue()
            showing = self._show_progress(self._indexing, "efim-ls: reading the workspace's files")
            self._shows_index = asyncio.ensure_future(showing)
        self._indexing.put_nowait((f"{status.done} of {status.total} files", status.percentage))

    async def _show_progress(self, reports: asyncio.Queue[tuple[str, int] | None], title: str) -> None:
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            return
        token, shown = str(uuid.uuid4()), self.work_done_progress
        created = self.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token))
        try:
            await created  # may wait forever, as some clients never answer; loading continues meanwhile
        except JsonRpcException:  # the client declines progress
            return
        shown.begin(token, types.WorkDoneProgressBegin(title, percentage=0))
        while (report := await reports.get()) is not None:
            shown.report(token, types.WorkDoneProgressReport(message=report[0], percentage=report[1]))
        shown.end(token, types.WorkDoneProgressEnd())

    def open_document(self, uri: str, message: object) -> None:
        """Open the document that a message describes; one without a text gets no suggestions."""
        language, text = language_and_text(message)
        document = self.session.open(uri, language, text or "", version_of(message))
        if text is None:
            document.out_of_step = True
            self.report_out_of_step(uri)

    def edit_document(self, document: OpenDocument, message: object) -> None:
        """Apply the edits of a message to a document, up to the first that cannot be understood."""
        was_in_step = not document.out_of_step
        self.session.edit(document, changes_of(message, self.encoding))
        if was_in_step and document.out_of_step:
            self.report_out_of_step(document.uri)
        document.version = version_of(message)

    def report_out_of_step(self, name: str) -> None:
        """Log that a message about a document's text cannot be understood, and show once what follows from that."""
        logger.warning("a message about a document's text cannot be understood")
        cause = f"efim-ls: a message about the text of {name} cannot be understood"
        self.window_log_message(types.LogMessageParams(types.MessageType.Warning, cause))
        self._show_once(types.MessageType.Warning, OUT_OF_STEP)
        self.status_reporter.changed()

    def _show_once(self, kind: types.MessageType, message: str) -> None:
        if message not in self._shown:
            self._shown.add(message)
            self.window_show_message(types.ShowMessageParams(kind, f"efim-ls: {message}"))


async def _gone(pid: int) -> None:
    """Return once the process has ended, which is looked at every few seconds; a zombie has."""
    try:
        parent = psutil.Process(pid)
        while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(PARENT_INTERVAL)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:  # it is there, but not ours to look at
        while psutil.pid_exists(pid):
            await asyncio.sleep(PARENT_INTERVAL)
