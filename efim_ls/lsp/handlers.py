"""Every LSP message in, in one table: a handler converts, calls and converts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.access.reasons import refusal, unexplained
from efim_ls.lsp.feedback import ACCEPT, accept, did_partially_accept, did_show
from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.menu import TRIGGERS, menu_item, word_start
from efim_ls.lsp.protocol import DID_MOVE_CURSOR, EXPLAIN
from efim_ls.request import Request
from efim_ls.settings import SECTIONS, parse
from efim_ls.text.document import Change, Document

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """A request and where it was asked, in the client's units: taken at once, since the document may change."""

    request: Request
    language: str
    at: types.Position
    word_at: types.Position


def initialize(ls: EfimServer, params: types.InitializeParams) -> None:
    """Offer the completion menu to those who want it or cannot do better."""
    ls.initial_settings = params.initialization_options
    ls.session.work_in(ls.folders)
    ls.teller.wanted = _wants_status(params.capabilities.experimental)
    settings, _ = parse(ls.initial_settings)
    document = params.capabilities.text_document
    shows_ghost_text = document is not None and document.inline_completion is not None
    if settings.menu == "always" or (settings.menu == "auto" and not shows_ghost_text):
        options = types.CompletionOptions(trigger_characters=TRIGGERS)
        ls.feature(types.TEXT_DOCUMENT_COMPLETION, options)(completion)


async def initialized(ls: EfimServer, _: types.InitializedParams) -> None:
    """Load the model: the client is there to be told about it."""
    await ls.configure(None)


async def did_change_configuration(ls: EfimServer, params: types.DidChangeConfigurationParams) -> None:
    """Adopt settings that are pushed, or fetch those that only changed."""
    settings, workspace = params.settings, ls.client_capabilities.workspace
    if settings is None and workspace is not None and workspace.configuration:
        item = types.ConfigurationItem(section=SECTIONS[0])
        [settings] = await ls.workspace_configuration_async(types.ConfigurationParams([item]))
    await ls.configure(settings)


def did_change_folders(ls: EfimServer, _: types.DidChangeWorkspaceFoldersParams) -> None:
    """Judge documents by the folders that the client works in now."""
    ls.session.work_in(ls.folders)


def did_open(ls: EfimServer, params: types.DidOpenTextDocumentParams) -> None:
    """Keep the text of a document; like all changes of it at once, so that requests see them in order."""
    item = params.text_document
    document = Document(item.uri, item.language_id, item.text, item.version)
    ls.session.fates.closed(item.uri)  # some clients open anew what is open
    ls.session.documents[item.uri] = document
    ls.session.rested(document)


def did_change(ls: EfimServer, params: types.DidChangeTextDocumentParams) -> None:
    """Edit the text of a document."""
    document = ls.session.use(params.text_document.uri)
    if document is None:
        logger.warning("ignoring a change of a document that is not open")
        return
    ls.session.foresight.drop(document.uri)
    for change in map(_change, params.content_changes):
        ls.session.fates.apply(document, change, ls.encoding)
    document.version = params.text_document.version


def did_save(ls: EfimServer, params: types.DidSaveTextDocumentParams) -> None:
    """Compare with the text that was saved, and take that over should an edit ever have gone wrong."""
    document = ls.session.documents.get(params.text_document.uri)
    if document is not None and params.text not in (None, document.text):
        logger.warning("a document was not what its editor saved; its text is taken over")
        ls.session.fates.apply(document, Change(params.text or ""), ls.encoding)


def did_move_cursor(ls: EfimServer, params: types.TextDocumentPositionParams) -> None:
    """Work ahead for a place where the cursor came to rest."""
    document = ls.session.documents.get(params.text_document.uri)
    if document is not None:
        document.cursor = document.offset(params.position.line, params.position.character, ls.encoding)
        ls.session.rested(document)


def did_focus(ls: EfimServer, params: object) -> None:
    """Work ahead for a document that came to the front."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            if (document := ls.session.use(uri)) is not None:
                ls.session.rested(document)
        case _:
            raise JsonRpcInvalidParams("expected {textDocument: {uri}}")


def did_close(ls: EfimServer, params: types.DidCloseTextDocumentParams) -> None:
    """Drop a document."""
    ls.session.forget(params.text_document.uri)


async def inline_completion(
    ls: EfimServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList | None:
    """Suggest text at the cursor; null, and never an empty list, which hides what an editor shows already."""
    invoked = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
    if (suggested := await _suggested(ls, params, invoked)) is None:
        return None
    asked, texts = suggested
    place, offered = types.Range(asked.at, asked.at), zip(texts, _offer(ls, asked, texts), strict=True)
    items = [types.InlineCompletionItem(text, range=place, command=command) for text, command in offered]
    return types.InlineCompletionList(items)


async def completion(ls: EfimServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Offer the same in the completion menu."""
    if (suggested := await _suggested(ls, params, explicit=False)) is None:
        return None
    asked, (text, *_) = suggested
    replaced, [command] = types.Range(asked.word_at, asked.at), _offer(ls, asked, [text])
    item = menu_item(asked.request, asked.language, replaced, text, command, ls.client_capabilities)
    return types.CompletionList(is_incomplete=True, items=[item])


def status(ls: EfimServer, params: object) -> dict[str, object]:
    """Whether completions can be had, in a document where one is named, and what runs where."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            return ls.teller.status(uri)
        case _:
            return ls.teller.status()


async def settled(ls: EfimServer, _: object) -> None:
    """Answer once no work is under way or queued, and all is written; what waits for its allowance is no work."""
    await ls.session.settled()


async def stats(ls: EfimServer, _: object) -> dict[str, object]:
    """What was asked, answered and spent, and the costs of the last answer; written to the file by then, too."""
    await asyncio.to_thread(ls.session.statistics.write)
    return ls.session.report()


async def explain(ls: EfimServer, params: types.TextDocumentPositionParams) -> dict[str, object]:
    """What the prompt at a place would be, and its costs."""
    asked = _asked(ls, params.text_document, params.position, explicit=False)
    return await ls.session.explain(asked.request) if asked else unexplained(refusal("unknown document"))


HANDLERS: dict[str, tuple[Callable[..., Any], object]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (did_change_configuration, None),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: (did_change_folders, None),
    types.TEXT_DOCUMENT_DID_OPEN: (did_open, None),
    types.TEXT_DOCUMENT_DID_CHANGE: (did_change, None),
    types.TEXT_DOCUMENT_DID_SAVE: (did_save, types.SaveOptions(include_text=True)),
    types.TEXT_DOCUMENT_DID_CLOSE: (did_close, None),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: (inline_completion, types.InlineCompletionOptions()),
    "textDocument/didShowCompletion": (did_show, None),
    "textDocument/didPartiallyAcceptCompletion": (did_partially_accept, None),
    DID_MOVE_CURSOR: (did_move_cursor, None),
    "textDocument/didFocus": (did_focus, None),
    "efim/status": (status, None),
    "efim/settled": (settled, None),
    "efim/stats": (stats, None),
    EXPLAIN: (explain, None),
}
COMMANDS: dict[str, Callable[..., Any]] = {ACCEPT: accept}


async def _suggested(
    ls: EfimServer, params: types.InlineCompletionParams | types.CompletionParams, explicit: bool
) -> tuple[Asked, tuple[str, ...]] | None:
    asked = _asked(ls, params.text_document, params.position, explicit)
    if asked is None:
        ls.session.refuse(params.text_document.uri, "unknown document")
        return None
    document = ls.session.documents[asked.request.uri]
    document.cursor = asked.request.cursor
    with ls.teller.request():
        answer = await ls.session.complete(asked.request)
    return (asked, answer.texts) if answer.texts else None


def _asked(
    ls: EfimServer, name: types.TextDocumentIdentifier, position: types.Position, explicit: bool
) -> Asked | None:
    document = ls.session.use(name.uri)
    if document is None:
        return None
    cursor = document.offset(position.line, position.character, ls.encoding)
    settings = ls.session.settings
    wanted = (settings.alternatives, 0.0) if explicit else (1, settings.min_confidence)
    return Asked(
        Request(name.uri, document.text, cursor, explicit, ls.session.others(document), *wanted),
        document.language,
        at=types.Position(*document.position(cursor, ls.encoding)),
        word_at=types.Position(*document.position(word_start(document.text, cursor), ls.encoding)),
    )


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return Change(change.text)
    start, end = change.range.start, change.range.end
    return Change(change.text, (start.line, start.character), (end.line, end.character))


def _wants_status(experimental: object) -> bool:
    match experimental:
        case {"efimStatus": True}:
            return True
        case _:
            return False


def _offer(ls: EfimServer, asked: Asked, texts: Sequence[str]) -> list[types.Command]:
    """What a client has to run after it has inserted one of these suggestions."""
    numbers = ls.session.fates.offers.offer(asked.request, asked.language, texts)
    return [types.Command("Accept a suggestion", ACCEPT, arguments=[number]) for number in numbers]
