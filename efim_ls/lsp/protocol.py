"""Reads messages: every request is answered, no text is mirrored, and known errors of clients are forgiven.

Messages that keep texts in sync are read in any form that leaves no doubt about its meaning: an edit that is dropped
falsifies every later one. A client may leave out the version, send null for a missing range, or a huge number for the
end of a text.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, cast

from cattrs import Converter, transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, default_converter

from efim_ls.text.document import Change, Encoding, Position

# pygls' copy of a text breaks at form feeds and some line ends, and costs O(file) for every keystroke.
NOT_MIRRORED = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
HANDLED_DOLLAR = (types.CANCEL_REQUEST, types.SET_TRACE)  # a server may ignore other $/ notifications
# The functions at the end read the needed fields of these, less strictly than LSP's types would.
READ_LENIENTLY = (*NOT_MIRRORED, types.TEXT_DOCUMENT_DID_SAVE)
NOTEBOOKS = types.NotebookDocumentSyncOptions([types.NotebookDocumentFilterWithNotebook("*")])  # of any kind
# Messages that LSP does not have: our own, and those that clients in use send.
STATUS, SETTLED, STATS, EXPLAIN = "efim/status", "efim/settled", "efim/stats", "efim/explain"
DID_MOVE_CURSOR, DID_CHANGE_STATUS = "efim/didMoveCursor", "efim/didChangeStatus"
DID_IMPROVE_SUGGESTION = "efim/didImproveSuggestion"
DID_FOCUS, DID_SHOW = "textDocument/didFocus", "textDocument/didShowCompletion"
DID_PARTIALLY_ACCEPT = "textDocument/didPartiallyAcceptCompletion"
# Next edits, in the messages that clients of Copilot's server send.
INLINE_EDIT, DID_SHOW_INLINE_EDIT = "textDocument/copilotInlineEdit", "textDocument/didShowInlineEdit"
LSP_TYPES = cast("dict[str, tuple[Any, ...]]", types.METHOD_TO_TYPES)  # pyright: ignore[reportUnknownMemberType]
PARAMS = {method: kinds[2] for method, kinds in LSP_TYPES.items() if method not in READ_LENIENTLY} | dict.fromkeys(
    (EXPLAIN, DID_MOVE_CURSOR), types.TextDocumentPositionParams
)
LARGEST_NUMBER = 2**31 - 1  # of a line or a character, in LSP

logger = logging.getLogger(__name__)


class EfimProtocol(LanguageServerProtocol):
    """Answers every request, even if it is malformed, too early or too late.

    Parameters are parsed after the request's id is known, so that an error reaches its sender. `exited` is called
    when the client says `exit`, in a process that serves others and must not end then.
    """

    exited: Callable[[], None] | None = None

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has requested shutdown."""
        return self._shutdown

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return the object unchanged: pygls calls this for nested objects, too."""
        return data

    def handle_message(self, message: Any) -> None:
        """Handle a message in its own context."""
        contextvars.copy_context().run(self._take, message)

    def refuse(self, number: int | str | None, error: JsonRpcException) -> None:
        """Answer with an error; `number` is None if the message has no usable id."""
        logger.warning("refusing a message: %s", type(error).__name__)
        self._send_data({"jsonrpc": self.VERSION, "id": number, "error": error.to_response_error()})

    def _take(self, message: Any) -> None:
        match message:
            case {"jsonrpc": "2.0", "id": int() | str() as number, "method": str(method)}:
                self._take_request(number, method, message.get("params"))
            case {"jsonrpc": "2.0", "method": str(method)}:
                self._take_notification(method, message.get("params"))
            case {"jsonrpc": "2.0", "id": int() | str() as number, "error": error}:
                self._handle_response(number, None, self._converter.structure(error, types.ResponseError))
            case {"jsonrpc": "2.0", "id": int() | str() as number, "result": _}:
                self._take_result(number, message)
            case {"id": int() | str() as number, "method": _}:
                self.refuse(number, JsonRpcInvalidRequest())
            case _:
                self.refuse(None, JsonRpcInvalidRequest())

    def _take_request(self, number: int | str, method: str, raw: object) -> None:
        try:
            self._check_phase(method)
            self._get_handler(method)
            params = self._structured(method, raw)
        except JsonRpcException as error:
            self.refuse(number, error)
        else:
            self._handle_request(number, method, params)

    def _check_phase(self, method: str) -> None:
        if self._shutdown:
            raise JsonRpcInvalidRequest("the server is shutting down")
        if self._workspace is None and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized("the server is not initialized")
        if self._workspace is not None and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest("the server is already initialized")

    def _take_notification(self, method: str, raw: object) -> None:
        ignored = self._shutdown or self._workspace is None or (method[:2] == "$/" and method not in HANDLED_DOLLAR)
        if ignored and method != types.EXIT:
            return
        if method == types.EXIT and self.exited is not None:
            self.exited()
            return
        try:
            params = self._structured(method, raw)
        except JsonRpcInvalidParams:
            logger.warning("ignoring a malformed %s", method)
        else:
            self._handle_notification(method, params)

    def _take_result(self, number: int | str, message: dict[str, Any]) -> None:
        kind = self._result_types.pop(number, None)
        structured = self._converter.structure(message, kind).result if kind else message["result"]
        self._handle_response(number, structured)

    def _structured(self, method: str, raw: object) -> Any:
        kind = PARAMS.get(method)
        if kind is None:
            return raw
        try:
            return self._converter.structure({} if raw is None else raw, kind)
        except Exception as error:  # whatever the type, the client's input caused it
            raise JsonRpcInvalidParams(f"Invalid Params: {'; '.join(transform_error(error))}") from None

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()
        builtin: dict[str, object] = cast("Any", self.fm).builtin_features
        for method in NOT_MIRRORED:
            del builtin[method]

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        if msg_id in self._request_futures:  # else the answer was already sent
            super()._handle_cancel_notification(msg_id)

    # pygls caches these two for the class: its keys keep every protocol that was ever used, and so its whole session.
    def get_message_type(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, method: str
    ) -> type[Any] | None:
        """Return the type of a message, None if LSP does not have it."""
        return LSP_TYPES.get(method, (None,))[0]

    def get_result_type(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, method: str
    ) -> type[Any] | None:
        """Return the type of the answer to a request, None if LSP does not have it."""
        return LSP_TYPES.get(method, (None, None))[1]

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        error = None if future.cancelled() else future.exception()
        if error is None:
            super()._send_handler_result(future, msg_id=msg_id)
            return
        self._request_futures.pop(msg_id, None)
        if not isinstance(error, JsonRpcException):
            logger.error("request %s failed", msg_id, exc_info=error)
            error = JsonRpcInternalError(f"Internal Error: {type(error).__name__}")
        self.refuse(msg_id, error)

    def _check_handler_result(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcInvalidParams):
            logger.warning("ignoring a malformed notification")
        elif error is not None:
            logger.error("a notification failed", exc_info=error)


@cache
def converter() -> Converter:
    """Return the converter from JSON to LSP types that tolerates known client errors; it takes 0.1 s to make."""
    made = default_converter()
    made.register_structure_hook(types.Position, _position)
    made.register_structure_hook(types.InlineCompletionParams, partial(_inline_params, made))
    capabilities = types.TextDocumentClientCapabilities
    structure = made.get_structure_hook(capabilities)
    made.register_structure_hook(capabilities, partial(_capabilities, structure))
    return made


def _position(raw: object, _: object) -> types.Position:
    """Accept numbers above LSP's limit, which some clients send for the end of a line or a text."""
    position = position_of(raw)
    if position is None or cast("dict[str, int]", raw)["line"] < 0:
        raise ValueError("expected a position: {line, character}")
    return types.Position(*position)


def _capabilities(structure: Callable[[object, object], Any], raw: dict[str, Any], kind: object) -> Any:
    """Read a null `inlineCompletion` as an empty object: Emacs' lsp-mode announces ghost text that way."""
    empty: dict[str, Any] = {"inlineCompletion": {}}
    return structure(raw | empty if raw.get("inlineCompletion", empty) is None else raw, kind)


def _inline_params(made: Converter, raw: dict[str, Any], _: object) -> types.InlineCompletionParams:
    """Accept any or no trigger kind, and ignore a selected item without a text or a range."""
    match raw:
        case {"context": {"triggerKind": 0 | 1}}:  # 0 comes from clients that send VS Code's own numbers
            kind = types.InlineCompletionTriggerKind.Invoked
        case _:
            kind = types.InlineCompletionTriggerKind.Automatic
    return types.InlineCompletionParams(
        context=types.InlineCompletionContext(kind, _selected(raw.get("context"))),
        text_document=made.structure(raw["textDocument"], types.TextDocumentIdentifier),
        position=made.structure(raw["position"], types.Position),
    )


def _selected(context: Any) -> types.SelectedCompletionInfo | None:
    match context:
        case {"selectedCompletionInfo": {"range": {"start": start, "end": end}, "text": str(text)}}:
            first, last = position_of(start), position_of(end)
            if first is None or last is None:
                return None
            return types.SelectedCompletionInfo(types.Range(types.Position(*first), types.Position(*last)), text)
        case _:
            return None


def version_of(params: object) -> int | None:
    """Return the version of the document that a message is about, None if it has none."""
    match params:
        case {"textDocument": {"version": int(version)}}:
            return version
        case _:
            return None


def language_and_text(params: object) -> tuple[str, str | None]:
    """Return the language and text of a document that is being opened, '' and None if they are no texts."""
    match params:
        case {"textDocument": {"languageId": str(language), "text": str(text)}}:
            return language, text
        case {"textDocument": {"languageId": str(language)}}:
            return language, None
        case {"textDocument": {"text": str(text)}}:
            return "", text
        case _:
            return "", None


def changes_of(params: Any, encoding: Encoding) -> Iterator[Change | None]:
    """Yield the changes of a document, with positions in `encoding`; None for a change that cannot be understood."""
    match params:
        case {"contentChanges": [*changes]}:
            yield from (_change(each, encoding) for each in changes)
        case _:
            yield None


def position_of(raw: object) -> Position | None:
    """Return a position with its numbers within LSP's limits, None if it is none."""
    match raw:
        case {"line": int() | float() as line, "character": int() | float() as character}:
            if not (_is_whole(line) and _is_whole(character)):
                return None
            if line < 0:
                return 0, 0
            return min(int(line), LARGEST_NUMBER), min(max(int(character), 0), LARGEST_NUMBER)
        case _:
            return None


def _is_whole(number: float) -> bool:
    return not isinstance(number, bool) and (isinstance(number, int) or number.is_integer())


def _change(raw: Any, encoding: Encoding) -> Change | None:
    match raw:
        case {"text": str(text), "range": {"start": start, "end": end}}:
            first, last = position_of(start), position_of(end)
            return None if first is None or last is None else Change(text, first, last, encoding)
        case {"range": value} if value is not None:
            return None
        case {"text": str(text)}:
            return Change(text)
        case _:
            return None
