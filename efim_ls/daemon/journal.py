"""The messages between a client and its server that a new server needs to go on.

Imports little, because relays are small processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from efim_ls.lsp.wire import TEXT, document_uri, framed

Message = dict[str, Any]

FEWEST_BYTES = 1 << 16  # of a document's edits, from which they are replaced by its text
OURS = "efim-relay-"  # how the ids of a relay's own requests begin
OPENED, CLOSED = "textDocument/didOpen", "textDocument/didClose"
FOLDERS = "workspace/didChangeWorkspaceFolders"
NOTEBOOK_OPENED, NOTEBOOK_CLOSED = "notebookDocument/didOpen", "notebookDocument/didClose"
NOTEBOOK_EDITED = "notebookDocument/didChange"
EDITED = ("textDocument/didChange", "textDocument/didSave")


class _OpenDocument:
    """An open document as it was opened, and what followed."""

    def __init__(self, opened: bytes, item: Message) -> None:
        self.opened, self.item = opened, item
        self.followed: list[bytes] = []
        self.size, self.limit = 0, max(FEWEST_BYTES, 2 * len(opened))
        self.query, self.known = "", 0  # the request for the text that is not answered, and the edits that it knows

    def add(self, body: bytes) -> bool:
        """Add an edit; return whether it is time to ask for the text instead of keeping more."""
        self.followed.append(body)
        self.size += len(body)
        return self.size > self.limit and not self.query

    def fold(self, text: object, version: object) -> None:
        """Replace the edits that a requested text includes by the text; None leaves them."""
        known, self.query = self.known, ""
        if not isinstance(text, str):
            self.limit = 2 * self.size
            return
        self.item = {**self.item, "text": text, "version": version if version is not None else 0}
        self.opened = _body(OPENED, {"textDocument": self.item})
        del self.followed[:known]
        self.size, self.limit = sum(map(len, self.followed)), max(FEWEST_BYTES, 2 * len(self.opened))


class Journal:
    """The state of one connection: what has to be said again, and to whom answers belong. Used under a lock."""

    def __init__(self) -> None:
        self.shutting_down = self.is_over = False  # what the client has said of its end
        self._greeting: dict[str, bytes] = {}  # initialize, initialized, the last configuration
        self._folders: dict[str, Message | None] = {}  # by URI, those added since, and None for those removed
        self._documents: dict[str, _OpenDocument] = {}
        self._notebooks: dict[str, list[bytes]] = {}  # as they were opened, and what followed
        self._pending: dict[object, list[bytes]] = {}  # requests without an answer, with what cancels them
        self._asked: set[object] = set()  # ids of the server's requests that the client has not answered
        self._progress: dict[object, None] = {}  # tokens of what the client shows as under way
        self._hidden: set[object] = set()  # ids of requests whose answers the client is not to see
        self._registered = self._again = False
        self._numbers = 0

    def sent(self, body: bytes) -> list[bytes]:
        """Note a message of the client; return what to send to the server."""
        match _parsed(body):
            case {"method": str(method), "id": int() | str() as number} as message:
                self._pending[number] = [body]
                if method == "initialize":
                    self._greeting[method] = body
                self.shutting_down = self.shutting_down or method == "shutdown"
                return self._messages(body, message)
            case {"method": "$/cancelRequest", "params": {"id": int() | str() as number}} if number in self._pending:
                self._pending[number].append(body)
            case {"method": str(method)} as message:
                return self._messages(body, message)
            case {"id": int() | str() as number} if self._again and number not in self._asked:
                return []  # an answer to a server that is dead
            case {"id": int() | str() as number}:
                self._asked.discard(number)
            case _:
                pass
        return [body]

    def _messages(self, body: bytes, message: Message) -> list[bytes]:
        """Note a notification or request; return it, followed by a request for a text that is due."""
        method, params = message["method"], message.get("params")
        self.is_over = self.is_over or method == "exit"
        if method in ("initialized", "workspace/didChangeConfiguration"):
            self._greeting[method] = body
        elif method == FOLDERS:
            self._note_folders(params)
        elif method in (NOTEBOOK_OPENED, NOTEBOOK_EDITED, NOTEBOOK_CLOSED):
            self._note_notebook(method, body, params)
        elif method in (OPENED, CLOSED, *EDITED) and (uri := document_uri(params)) is not None:
            return [body, *self._sync(method, uri, body, params)]
        return [body]

    def _sync(self, method: str, uri: str, body: bytes, params: Any) -> Iterator[bytes]:
        if method == CLOSED:
            self._documents.pop(uri, None)
        elif method == OPENED:
            self._documents[uri] = _OpenDocument(body, params["textDocument"])
        elif (document := self._documents.get(uri)) is not None and document.add(body):
            document.query, document.known = self._number(uri), len(document.followed)
            yield _body(TEXT, {"textDocument": {"uri": uri}}, document.query)

    def _note_notebook(self, method: str, body: bytes, params: Any) -> None:
        match params:
            case {"notebookDocument": {"uri": str(uri)}} if method == NOTEBOOK_OPENED:
                self._notebooks[uri] = [body]
            case {"notebookDocument": {"uri": str(uri)}} if method == NOTEBOOK_CLOSED:
                self._notebooks.pop(uri, None)
            case {"notebookDocument": {"uri": str(uri)}} if uri in self._notebooks:
                self._notebooks[uri].append(body)
            case _:
                pass  # no server can take it

    def _note_folders(self, params: Any) -> None:
        """Note the last change of each folder; a folder that is added and removed at once is removed."""
        try:
            event = params["event"]
            self._folders |= {str(each["uri"]): each for each in event["added"]}
            self._folders |= {str(each["uri"]): None for each in event["removed"]}
        except (LookupError, TypeError):
            pass  # no server can take it

    def _folder_messages(self) -> list[bytes]:
        """Return the message on folders that a new server needs after `initialize`."""
        if not self._folders:
            return []
        added = [each for each in self._folders.values() if each is not None]
        removed = [{"uri": uri, "name": ""} for uri, each in self._folders.items() if each is None]
        return [_body(FOLDERS, {"event": {"added": added, "removed": removed}})]

    def _number(self, uri: str) -> str:
        """Return a new id for a request of the relay's own about a document."""
        self._numbers += 1
        return f"{OURS}{self._numbers} {uri}"

    def question(self) -> bytes:
        """Return a request that a server answers at once, whatever it does: the text of no document."""
        return _body(TEXT, {"textDocument": {"uri": ""}}, self._number(""))

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._pending)

    def received(self, body: bytes) -> tuple[bytes | None, bytes | None]:
        """Note a message of the server; return what to pass to the client, and what to answer the server at once."""
        match message := _parsed(body):
            case {"method": "client/registerCapability", "id": number} if self._again and self._registered:
                return None, _answer(number)
            case {"method": str(method), "id": number}:
                self._asked.add(number)
                self._registered = self._registered or method == "client/registerCapability"
            case {"method": "$/progress", "params": {"token": token, "value": {"kind": "begin"}}}:
                self._progress[token] = None
            case {"method": "$/progress", "params": {"token": token, "value": {"kind": "end"}}}:
                self._progress.pop(token, None)
            case {"id": str(number)} if number.startswith(OURS):
                self._fold(number, message)
                return None, None
            case {"id": number} if number in self._hidden:
                self._hidden.discard(number)
                return None, None
            case {"id": number}:
                self._pending.pop(number, None)
            case _:
                pass
        return body, None

    def begin_again(self) -> bytes:
        """Return all messages that a new server needs, as they go over the wire: unanswered requests come last."""
        self._again = True
        self._asked.clear()
        for document in self._documents.values():
            document.query = ""
        greeting = self._greeting.get("initialize")
        if greeting is None:
            return b"".join(framed(body) for bodies in self._pending.values() for body in bodies)
        number = _parsed(greeting)["id"]
        if number not in self._pending:
            self._hidden.add(number)
        messages = [self._greeting[name] for name in self._greeting]
        messages += self._folder_messages()
        for document in self._documents.values():
            messages += [document.opened, *document.followed]
        messages += [body for bodies in self._notebooks.values() for body in bodies]
        messages += [body for asked, bodies in self._pending.items() if asked != number for body in bodies]
        return b"".join(map(framed, messages))

    def end_progress(self) -> list[bytes]:
        """Return the messages that end the client's displays of progress whose server has died."""
        ends = [_body("$/progress", {"token": token, "value": {"kind": "end"}}) for token in self._progress]
        self._progress.clear()
        return ends

    def last_answers(self) -> list[bytes]:
        """Return answers to all open requests of a client that has asked its dead server to shut down."""
        answers = [_answer(number) for number in self._pending]
        self._pending.clear()
        return answers

    def _fold(self, number: str, message: Message) -> None:
        """Take the answer to a request for a text; the document may have been closed and opened anew since."""
        document = self._documents.get(number.partition(" ")[2])
        if document is not None and document.query == number:
            result = message.get("result")
            content = cast("Message", result) if isinstance(result, dict) else {}
            document.fold(content.get("text"), content.get("version"))


def warning(text: str) -> bytes:
    """Return a message that shows the user a warning."""
    return _body("window/showMessage", {"type": 2, "message": text})


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _body(method: str, params: Message, number: str | None = None) -> bytes:
    identity = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **identity, "method": method, "params": params}).encode()


def _answer(number: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": None}).encode()
