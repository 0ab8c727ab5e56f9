"""Every LSP message in, in one table: a handler converts, calls and converts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.answer import Request
from efim_ls.document import Change, Document
from efim_ls.language_server import EfimServer
from efim_ls.protocol import DID_MOVE_CURSOR, EXPLAIN
from efim_ls.session import unexplained
from efim_ls.settings import SECTIONS, parse

ACCEPT = "efim-ls.accept"
FIRST = " "  # sorts before what other servers offer: a whole line is what this one is asked for
TRIGGERS = (".", "(")
LONGEST_WORD = 200  # characters that are looked at: a line may be one huge word, and the loop waits

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """A request and where it was asked, in the client's units: taken at once, since the document may change."""

    request: Request
    at: types.Position
    word_at: types.Position


def initialize(ls: EfimServer, params: types.InitializeParams) -> None:
    """Offer the completion menu to those who want it or cannot do better."""
    ls.initial_settings = params.initialization_options
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


def did_open(ls: EfimServer, params: types.DidOpenTextDocumentParams) -> None:
    """Keep the text of a document; like all changes of it at once, so that requests see them in order."""
    item = params.text_document
    document = Document(item.uri, item.language_id, item.text, item.version)
    ls.session.documents[item.uri] = document
    ls.session.rested(document)


def did_change(ls: EfimServer, params: types.DidChangeTextDocumentParams) -> None:
    """Edit the text of a document."""
    document = ls.session.use(params.text_document.uri)
    if document is None:
        logger.warning("ignoring a change of a document that is not open")
        return
    ls.session.foresight.drop(document.uri)
    document.apply(map(_change, params.content_changes), ls.encoding)
    document.version = params.text_document.version


def did_save(ls: EfimServer, params: types.DidSaveTextDocumentParams) -> None:
    """Compare with the text that was saved, and take that over should an edit ever have gone wrong."""
    document = ls.session.documents.get(params.text_document.uri)
    if document is not None and params.text not in (None, document.text):
        logger.warning("a document was not what its editor saved; its text is taken over")
        document.apply([Change(params.text or "")], ls.encoding)


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
    place = types.Range(asked.at, asked.at)
    return types.InlineCompletionList(
        [types.InlineCompletionItem(text, range=place, command=_accept_command(ls)) for text in texts]
    )


async def completion(ls: EfimServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Offer the same in the completion menu."""
    if (suggested := await _suggested(ls, params, explicit=False)) is None:
        return None
    asked, texts = suggested
    return types.CompletionList(is_incomplete=True, items=[_menu_item(ls, asked, texts[0])])


def accept(ls: EfimServer, *arguments: object) -> None:
    """Count that a suggestion was accepted: its id and, where it was not accepted whole, a length."""
    match arguments:
        case (str(number),):
            ls.session.counters.tell(number, "accepted")
        case (str(number), int()):
            ls.session.counters.tell(number, "partially_accepted")
        case _:
            raise JsonRpcInvalidParams(f"{ACCEPT} takes a suggestion's id and perhaps a length")


def did_show(ls: EfimServer, params: object) -> None:
    """Count that a suggestion was seen."""
    ls.session.counters.tell(_item_number(params), "shown")


def did_partially_accept(ls: EfimServer, params: object) -> None:
    """Count that a part of a suggestion was accepted."""
    ls.session.counters.tell(_item_number(params), "partially_accepted")


def status(ls: EfimServer, _: object) -> dict[str, object]:
    """Whether completions can be had, and what runs where."""
    return ls.session.describe()


async def settled(ls: EfimServer, _: object) -> None:
    """Answer once no work is under way or queued, and all is written; what waits for its allowance is no work."""
    await ls.session.settled()


def stats(ls: EfimServer, _: object) -> dict[str, object]:
    """What was asked, answered and spent, and the costs of the last answer."""
    return ls.session.report()


async def explain(ls: EfimServer, params: types.TextDocumentPositionParams) -> dict[str, object]:
    """What the prompt at a place would be, and its costs."""
    asked = _asked(ls, params.text_document, params.position, explicit=False)
    return await ls.session.explain(asked.request) if asked else unexplained("unknown document")


HANDLERS: dict[str, tuple[Callable[..., Any], object]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (did_change_configuration, None),
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
    answer = await ls.session.complete(asked.request)
    return (asked, answer.texts) if answer.texts else None


def _asked(
    ls: EfimServer, name: types.TextDocumentIdentifier, position: types.Position, explicit: bool
) -> Asked | None:
    document = ls.session.use(name.uri)
    if document is None:
        return None
    cursor = document.offset(position.line, position.character, ls.encoding)
    return Asked(
        Request(name.uri, document.text, cursor, explicit, ls.session.others(document)),
        at=types.Position(*document.position(cursor, ls.encoding)),
        word_at=types.Position(*document.position(_word_start(document.text, cursor), ls.encoding)),
    )


def _word_start(text: str, cursor: int) -> int:
    start = cursor
    while start > max(0, cursor - LONGEST_WORD) and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return start


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return Change(change.text)
    start, end = change.range.start, change.range.end
    return Change(change.text, (start.line, start.character), (end.line, end.character))


def _menu_item(ls: EfimServer, asked: Asked, text: str) -> types.CompletionItem:
    """Replace the word typed so far by itself and the suggestion: menus filter by whole words."""
    request = asked.request
    whole = request.text[_word_start(request.text, request.cursor) : request.cursor] + text
    first, *more = whole.strip().split("\n")
    return types.CompletionItem(
        label=first + " …" if more else first,
        kind=types.CompletionItemKind.Text,
        detail="efim-ls",
        documentation=whole if more else None,
        preselect=False,
        sort_text=FIRST,
        filter_text=first,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(types.Range(asked.word_at, asked.at), whole),
        command=_accept_command(ls),
    )


def _accept_command(ls: EfimServer) -> types.Command:
    return types.Command("Accept a suggestion", ACCEPT, arguments=[ls.session.counters.offer()])


def _item_number(params: object) -> str:
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}}:
            return number
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}}")
