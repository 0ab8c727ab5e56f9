"""The operations of JSON Lines requests, and the checks of their fields."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsprotocol import types

from editor_clients.headless.client import Editor, NextEdit
from editor_clients.headless.document import OutOfRange

LANGUAGES = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".go": "go", ".h": "c", ".hpp": "cpp",
    ".java": "java", ".js": "javascript", ".jsx": "javascriptreact", ".kt": "kotlin", ".lua": "lua",
    ".md": "markdown", ".php": "php", ".py": "python", ".pyi": "python", ".pyw": "python", ".rb": "ruby",
    ".rs": "rust", ".sh": "shellscript", ".swift": "swift", ".ts": "typescript", ".tsx": "typescriptreact",
    ".txt": "plaintext",
}  # fmt: skip

Answer = dict[str, Any]
T = TypeVar("T", int, str)


class Refused(Exception):
    """A request that cannot be served, with a `code` for programs and a message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Offer:
    """The suggestion, or what remains after `taken` characters of it, that accepting would insert at `at`."""

    at: int
    text: str
    command: types.Command | None
    taken: int = 0


class Session:
    """The client's open documents and the suggestion offered in each."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._offers: dict[str, Offer] = {}
        self._next_edit: NextEdit | None = None
        self._ops = {
            "open": self._open,
            "edit": self._edit,
            "move": self._move,
            "focus": self._focus,
            "complete": self._complete,
            "accept": self._accept,
            "next_edit": self._ask_next_edit,
            "accept_edit": self._accept_edit,
            "refuse_edit": self._refuse_edit,
            "explain": self._explain,
            "stats": self._stats,
            "settle": self._settle,
            "close": self._close,
        }

    async def answer(self, request: Answer) -> Answer:
        """Carry out a request; raises Refused or OutOfRange."""
        op = self._ops.get(_field(request, "op", str))
        if op is None:
            raise Refused("unknown-op", f"op is one of {', '.join(self._ops)}")
        return await op(request)

    async def _open(self, request: Answer) -> Answer:
        path = Path(_field(request, "path", str))
        text = _field(request, "text", str) if "text" in request else _read(path)
        uri = _uri(request)
        self._next_edit = None
        self._offers.pop(uri, None)
        self._editor.open(uri, text, _language(path.suffix.lower()))
        return {"ok": True}

    async def _edit(self, request: Answer) -> Answer:
        uri = self._opened(request)
        at, delete = _field(request, "at", int), _field(request, "delete", int, 0)
        insert = _field(request, "insert", str, "")
        if delete < 0:
            raise Refused("bad-request", "delete counts code points, so it is not negative")
        self._editor.edit(uri, at, delete, insert)
        self._next_edit = None
        self._offers.pop(uri, None)
        return {"ok": True}

    async def _move(self, request: Answer) -> Answer:
        self._editor.move(self._opened(request), _field(request, "at", int))
        return {"ok": True}

    async def _focus(self, request: Answer) -> Answer:
        self._editor.focus(self._opened(request))
        return {"ok": True}

    async def _complete(self, request: Answer) -> Answer:
        uri = self._opened(request)
        at = _field(request, "at", int)
        self._offers.pop(uri, None)
        completion = await self._editor.complete(uri, at)
        if completion.text:
            self._offers[uri] = Offer(at, completion.text, completion.command)
        about = {"costs": completion.costs, "reason": completion.reason, "confidence": completion.confidence}
        return {"text": completion.text, **about, "notice": await self._editor.notice(uri)}

    async def _accept(self, request: Answer) -> Answer:
        uri = self._opened(request)
        offer = self._offers.get(uri)
        if offer is None:
            raise Refused("no-suggestion", "there is none, or the text changed since: complete first")
        length = _field(request, "length", int, len(offer.text))
        if not 0 < length <= len(offer.text):
            raise OutOfRange(f"length {length} is outside the suggestion, which has {len(offer.text)} code points")
        taken, left = offer.text[:length], offer.text[length:]
        inserted = taken.replace("\n", self._editor.line_end(uri))
        at = offer.at + len(inserted)
        self._editor.edit(uri, offer.at, 0, inserted)
        self._next_edit = None
        if left:
            self._offers[uri] = Offer(at, left, offer.command, offer.taken + length)
        else:
            del self._offers[uri]
        if offer.command is not None:
            await self._editor.accept(offer.command, offer.taken + length if left else None)
        return {"ok": True, "inserted": inserted, "at": at}

    async def _ask_next_edit(self, request: Answer) -> Answer:
        uri, at = self._opened(request), _field(request, "at", int)
        self._next_edit = edit = await self._editor.next_edit(uri, at, self._open_file)
        return {"ok": True, "edit": _described(edit) if edit else None}

    async def _accept_edit(self, request: Answer) -> Answer:
        edit = self._offered_edit()
        await self._editor.accept_edit(edit)
        self._offers.pop(edit.uri, None)
        return {"ok": True, "edit": _described(edit)}

    async def _refuse_edit(self, request: Answer) -> Answer:
        await self._editor.refuse_edit(self._offered_edit())
        return {"ok": True}

    def _open_file(self, uri: str) -> None:
        path = Path(_path(uri))
        self._editor.open(uri, _read(path), _language(path.suffix.lower()))

    def _offered_edit(self) -> NextEdit:
        """Return the next edit that was offered last, which then is offered no more."""
        edit, self._next_edit = self._next_edit, None
        if edit is None:
            raise Refused("no-suggestion", "there is no next edit, or the text changed since: ask for one first")
        return edit

    async def _explain(self, request: Answer) -> Answer:
        uri, at = self._opened(request), _field(request, "at", int)
        return {"ok": True, "explanation": await self._editor.explain(uri, at)}

    async def _stats(self, request: Answer) -> Answer:
        return {"ok": True, "stats": await self._editor.stats()}

    async def _settle(self, request: Answer) -> Answer:
        await self._editor.settled()
        return {"ok": True}

    async def _close(self, request: Answer) -> Answer:
        uri = self._opened(request)
        self._offers.pop(uri, None)
        self._next_edit = None
        self._editor.close(uri)
        return {"ok": True}

    def _opened(self, request: Answer) -> str:
        uri = _uri(request)
        if not self._editor.is_open(uri):
            raise Refused("unknown-document", f"{request['path']} is not open")
        return uri


def _language(suffix: str) -> str:
    """Return a file's language by its suffix; an unlisted suffix is its own language."""
    return LANGUAGES.get(suffix) or suffix[1:] or "plaintext"


def _uri(request: Answer) -> str:
    return Path(os.path.abspath(_field(request, "path", str))).as_uri()


def _path(uri: str) -> str:
    return url2pathname(urlsplit(uri).path)


def _described(edit: NextEdit) -> Answer:
    """Return a next edit in the words of the op `edit`."""
    return {"path": _path(edit.uri), "at": edit.start, "delete": edit.end - edit.start, "insert": edit.text}


def _field(request: Answer, name: str, kind: type[T], default: T | None = None) -> T:
    value = request.get(name, default)
    if type(value) is not kind:
        raise Refused("bad-request", f"{name} is missing or no {'text' if kind is str else 'integer'}")
    if isinstance(value, str) and not _is_unicode(value):
        raise Refused("bad-request", f"{name} holds half of a surrogate pair")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe would hold all requests
            raise OSError("it is not a regular file")
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise Refused("unreadable", f"{path}: {error}") from error
