"""Handlers of all LSP messages, in one table: each converts the parameters, calls, and converts the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.access.reasons import explain_refusal, refusal
from efim_ls.completion.suggestions.explanation_page import sections
from efim_ls.lsp import notebooks
from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.menu import TRIGGERS, menu_item
from efim_ls.lsp.names import DID_LIST_NAMES, did_list_names
from efim_ls.lsp.next_edits import (
    ACCEPT_NEXT_EDIT,
    REFUSE_NEXT_EDIT,
    accept_next_edit,
    did_show_inline_edit,
    inline_edit,
    refuse_next_edit,
)
from efim_ls.lsp.protocol import (
    DID_FOCUS,
    DID_MOVE_CURSOR,
    DID_PARTIALLY_ACCEPT,
    DID_SHOW,
    DID_SHOW_INLINE_EDIT,
    EXPLAIN,
    INLINE_EDIT,
    SETTLED,
    STATS,
    STATUS,
)
from efim_ls.lsp.wire import TEXT, document_uri
from efim_ls.request import Request
from efim_ls.session.documents import OpenDocument
from efim_ls.settings import SECTIONS, parse
from efim_ls.text.document import Change
from efim_ls.text.lines import joined, normalized

ACCEPT = "efim-ls.accept"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """A request and its position in the client's units, taken at once because the document may change.

    `own` is the request in the document's own text: the text of a notebook's cell has the cells around it, too.
    """

    document: OpenDocument
    request: Request
    own: Request
    position: types.Position


def initialize(ls: EfimServer, params: types.InitializeParams) -> None:
    """Adopt the client's options; register the completion menu if it is wanted or ghost text is not supported."""
    ls.initial_settings = params.initialization_options
    if (client := params.client_info) is not None:
        ls.client_name = " ".join(filter(None, (client.name, client.version)))
    ls.encoding = types.PositionEncodingKind(ls.workspace.position_encoding).value
    ls.session.work_in(ls.folders)
    ls.watch_parent(params.process_id)
    ls.status_reporter.wanted = _wants(params.capabilities.experimental, "efimStatus")
    if _wants(params.capabilities.experimental, "efimImprovedSuggestions"):
        ls.session.requests.improved = ls.send_improved
    settings, _ = parse(ls.initial_settings)
    document = params.capabilities.text_document
    shows_ghost_text = document is not None and document.inline_completion is not None
    if settings.menu == "always" or (settings.menu == "auto" and not shows_ghost_text):
        options = types.CompletionOptions(trigger_characters=TRIGGERS)
        ls.feature(types.TEXT_DOCUMENT_COMPLETION, options)(completion)


async def initialized(ls: EfimServer, _: types.InitializedParams) -> None:
    """Ask for changes of files and load the model: the client can now receive requests, progress and errors."""
    ls.watch_files()
    await ls.configure(None)


async def did_change_configuration(ls: EfimServer, params: types.DidChangeConfigurationParams) -> None:
    """Adopt the settings in the message, or fetch them if it only reports a change."""
    settings, workspace = params.settings, ls.client_capabilities.workspace
    if settings is None and workspace is not None and workspace.configuration:
        item = types.ConfigurationItem(section=SECTIONS[0])
        [settings] = await ls.workspace_configuration_async(types.ConfigurationParams([item]))
    await ls.configure(settings)


def did_change_folders(ls: EfimServer, _: types.DidChangeWorkspaceFoldersParams) -> None:
    """Apply the access rules to the client's new workspace folders."""
    ls.session.work_in(ls.folders)


def did_change_watched_files(ls: EfimServer, params: types.DidChangeWatchedFilesParams) -> None:
    """Read files again that changed on disk."""
    ls.session.workspace.refresh([change.uri for change in params.changes])


def did_open(ls: EfimServer, params: object) -> None:
    """Open a document, synchronously like all changes, so that requests see them in order."""
    ls.open_document(_uri(ls, params), params)


def did_change(ls: EfimServer, params: object) -> None:
    """Apply edits to a document, up to the first that cannot be understood."""
    document = ls.documents.use(_uri(ls, params))
    if document is None:
        logger.warning("ignoring a change to a document that is not open")
        return
    ls.edit_document(document, params)


def did_save(ls: EfimServer, params: object) -> None:
    """Adopt the saved text if it differs, in case an edit went wrong."""
    document = ls.documents.get(_uri(ls, params))
    match params:
        case {"text": str(text)} if document is not None and (document.out_of_step or text != document.editor_text):
            logger.warning("a document differed from the text that its editor saved; now using the saved text")
            ls.session.edit(document, [Change(text)])
        case _:
            pass
    if document is not None:
        ls.session.workspace.index_document(document)


def did_close(ls: EfimServer, params: object) -> None:
    """Close a document."""
    ls.session.close_document(_uri(ls, params))


def did_move_cursor(ls: EfimServer, params: types.TextDocumentPositionParams) -> None:
    """Prefetch for the new cursor position once the user pauses."""
    document = ls.documents.get(params.text_document.uri)
    if document is not None:
        document.cursor = document.offset(params.position.line, params.position.character, ls.encoding)
        ls.background.rested(document)


def did_focus(ls: EfimServer, params: object) -> None:
    """Prefetch for a document that was brought to the front; some clients say that none is."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            if (document := ls.documents.use(uri)) is not None:
                ls.background.rested(document)
        case {} if not params:
            pass
        case _:
            raise JsonRpcInvalidParams("expected {textDocument: {uri}}")


def did_show(ls: EfimServer, params: object) -> None:
    """Count a suggestion as shown."""
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}}:
            ls.offers.show(number)
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}}")


def did_partially_accept(ls: EfimServer, params: object) -> None:
    """Count a partial acceptance; its length is in UTF-16 units, whatever the position encoding."""
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}, "acceptedLength": int(length)}:
            ls.offers.accept(number, length, "utf-16")
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}, acceptedLength}")


def accept(ls: EfimServer, *arguments: object) -> None:
    """Count an acceptance by the suggestion's id and, if partial, a length in the client's units."""
    match arguments:
        case (str(number),):
            ls.offers.accept(number, None, ls.encoding)
        case (str(number), int(length)):
            ls.offers.accept(number, length, ls.encoding)
        case _:
            raise JsonRpcInvalidParams(f"expected {ACCEPT} with a suggestion's id and an optional length")


async def inline_completion(
    ls: EfimServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList | None:
    """Suggest text at the cursor, or return null: an empty list would hide what the editor already shows.

    With an item selected in the list of words, what follows it is suggested, as if it stood there.
    """
    invoked = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
    snapshot, texts = await _suggest(ls, params, explicit=invoked)
    if snapshot is None or not texts:
        return None
    selected = params.context.selected_completion_info
    place, begun = (selected.range, selected.text) if selected else (types.Range(*[snapshot.position] * 2), "")
    commands = _offer(ls, snapshot, texts, begun)
    return types.InlineCompletionList([
        types.InlineCompletionItem(begun + text, range=place, command=command)
        for text, command in zip(texts, commands, strict=True)
    ])  # fmt: skip


async def completion(ls: EfimServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Suggest text at the cursor as a completion menu item; whether users see it among the others is unknown."""
    snapshot, texts = await _suggest(ls, params, explicit=False)
    if snapshot is None or not texts:
        return None
    text, [command] = texts[0], _offer(ls, snapshot, texts[:1])
    language, place = snapshot.request.language, snapshot.position
    item = menu_item(snapshot.request, language, place, ls.encoding, text, command, ls.client_capabilities)
    return types.CompletionList(is_incomplete=True, items=[item])


def status(ls: EfimServer, params: object) -> dict[str, object]:
    """Return whether completions are available, in one document if it is given, and what runs where."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            return ls.status_reporter.status(uri)
        case _:
            return ls.status_reporter.status()


async def settled(ls: EfimServer, _: object) -> None:
    """Return once no work is queued or running and everything is written, except work waiting for the idle budget."""
    await ls.session.settled()


async def stats(ls: EfimServer, _: object) -> dict[str, object]:
    """Return all counters and the costs of the last answer, after writing the counters to disk."""
    return await ls.session.report()


async def explain(ls: EfimServer, params: types.TextDocumentPositionParams) -> dict[str, object]:
    """Return the prompt that a request at a position would send, its costs, the next edit, and a page of all that."""
    snapshot, next_edit = _snapshot(ls, params.text_document, params.position, explicit=False), None
    explained, uri = explain_refusal(refusal("unknown document")), params.text_document.uri
    if snapshot is not None:
        offer = await ls.session.next_edits.find(snapshot.document, snapshot.own.cursor)
        next_edit = ls.session.next_edits.explain(offer) if offer else None
        explained = await ls.session.requests.explain(snapshot.request)
    explained |= {"next_edit": next_edit}
    return explained | {"sections": sections(explained, uri, params.position.line + 1, params.position.character + 1)}


def text(ls: EfimServer, params: object) -> dict[str, object] | None:
    """Return an open document's text and version for a relay, None if it may differ from the client's."""
    document = ls.documents.get(_uri(ls, params))
    known = document is not None and not document.out_of_step
    return {"text": document.editor_text, "version": document.version} if document and known else None


HANDLERS: dict[str, tuple[Callable[..., Any], object]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (did_change_configuration, None),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: (did_change_folders, None),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (did_change_watched_files, None),
    types.TEXT_DOCUMENT_DID_OPEN: (did_open, None),
    types.TEXT_DOCUMENT_DID_CHANGE: (did_change, None),
    types.TEXT_DOCUMENT_DID_SAVE: (did_save, types.SaveOptions(include_text=True)),
    types.TEXT_DOCUMENT_DID_CLOSE: (did_close, None),
    types.NOTEBOOK_DOCUMENT_DID_OPEN: (notebooks.did_open, None),
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: (notebooks.did_change, None),
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: (notebooks.did_close, None),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: (inline_completion, types.InlineCompletionOptions()),
    DID_SHOW: (did_show, None),
    DID_PARTIALLY_ACCEPT: (did_partially_accept, None),
    DID_MOVE_CURSOR: (did_move_cursor, None),
    DID_FOCUS: (did_focus, None),
    INLINE_EDIT: (inline_edit, None),
    DID_SHOW_INLINE_EDIT: (did_show_inline_edit, None),
    STATUS: (status, None),
    SETTLED: (settled, None),
    STATS: (stats, None),
    EXPLAIN: (explain, None),
    TEXT: (text, None),
    DID_LIST_NAMES: (did_list_names, None),
}
COMMANDS: dict[str, Callable[..., Any]] = {
    ACCEPT: accept,
    ACCEPT_NEXT_EDIT: accept_next_edit,
    REFUSE_NEXT_EDIT: refuse_next_edit,
}


async def _suggest(
    ls: EfimServer, params: types.InlineCompletionParams | types.CompletionParams, explicit: bool
) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Request suggestions at a position and return them; no snapshot of an unknown document."""
    snapshot = _snapshot(ls, params.text_document, params.position, explicit)
    if snapshot is None:
        ls.session.requests.refuse(params.text_document.uri, "unknown document")
        return None, ()
    snapshot.document.cursor = snapshot.own.cursor
    if isinstance(params, types.InlineCompletionParams) and (item := params.context.selected_completion_info):
        snapshot = _with_item(ls, snapshot, item)
    with ls.status_reporter.request():
        answer = await ls.session.requests.complete(snapshot.request)
    ls.session.workspace.list_keywords(snapshot.document, ls.session.requests.improved)
    return snapshot, (answer.text, *answer.alternatives) if answer.text else ()


def _snapshot(
    ls: EfimServer, name: types.TextDocumentIdentifier, position: types.Position, explicit: bool
) -> Snapshot | None:
    document = ls.documents.use(name.uri)
    if document is None:
        return None
    cursor = document.offset(position.line, position.character, ls.encoding)
    at = types.Position(*document.position(cursor, ls.encoding))
    own = Request(document.uri, document.text, cursor)
    return Snapshot(document, ls.session.request_at(document, cursor, explicit), own, at)


def _with_item(ls: EfimServer, snapshot: Snapshot, item: types.SelectedCompletionInfo) -> Snapshot:
    """Return a snapshot of the text that an item of the list of words would make."""
    edges = (item.range.start, item.range.end)
    start, end = sorted(snapshot.document.offset(each.line, each.character, ls.encoding) for each in edges)

    def inserted(request: Request) -> Request:
        above = request.cursor - snapshot.own.cursor
        before = request.text[: above + start] + normalized(joined(item.text))
        return replace(request, text=before + request.text[above + end :], cursor=len(before))

    return replace(snapshot, request=inserted(snapshot.request), own=inserted(snapshot.own))


def _uri(ls: EfimServer, params: object) -> str:
    """Return the URI in a message about a document's text; without one, report it and raise JsonRpcInvalidParams."""
    uri = document_uri(params)
    if uri is None:
        ls.report_out_of_step("an unnamed document")
        raise JsonRpcInvalidParams("expected {textDocument: {uri}}")
    return uri


def _wants(experimental: object, name: str) -> bool:
    return isinstance(experimental, Mapping) and cast("Mapping[str, object]", experimental).get(name) is True


def _offer(ls: EfimServer, snapshot: Snapshot, texts: Sequence[str], begun: str = "") -> list[types.Command]:
    """Return the command that a client runs after it has inserted a suggestion with the typed text in front."""
    document = snapshot.document
    numbers = ls.offers.offer(document.retention, document.language, snapshot.own, texts, begun)
    return [types.Command("Accept a suggestion", ACCEPT, arguments=[number]) for number in numbers]
