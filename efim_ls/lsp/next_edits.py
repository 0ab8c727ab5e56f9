"""Handlers of messages about next edits: asked for, shown, accepted, refused."""

from __future__ import annotations

from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.protocol import position_of, version_of
from efim_ls.session.next_edits import OfferedEdit
from efim_ls.text.lines import enclosing_line

ACCEPT_NEXT_EDIT, REFUSE_NEXT_EDIT = "efim-ls.acceptNextEdit", "efim-ls.refuseNextEdit"


async def inline_edit(ls: EfimServer, params: Any) -> dict[str, list[dict[str, object]]]:
    """Return the next edit to offer at a position, as a list with nothing else; clients expect a list without one.

    To a client that asks about another version, nothing is offered: it will ask again. Edits
    of other documents are for clients that ask for them: copilot-lsp would draw them in the shown document.
    """
    match params:
        case {"textDocument": {"uri": str(uri)}, "position": raw} if (position := position_of(raw)) is not None:
            document, version = ls.documents.use(uri), version_of(params)
        case _:
            raise JsonRpcInvalidParams("expected {textDocument: {uri, version}, position}")
    if document is None or (version is not None and version != document.version):
        return {"edits": []}
    message, cursor = cast("dict[str, object]", params), document.offset(*position, ls.encoding)
    if message.get("isTyping") is False:
        cursor = enclosing_line(document.text, cursor)[1] + 1  # the word at the cursor is whole, as if it was left
    offer = await ls.session.next_edits.find(document, cursor, message.get("otherFiles") is True)
    return {"edits": [_described(ls, offer)] if offer else []}


def did_show_inline_edit(ls: EfimServer, params: object) -> None:
    """Count a next edit as shown."""
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}}:
            ls.session.next_edits.show(number)
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}}")


def accept_next_edit(ls: EfimServer, *arguments: object) -> None:
    """Count an acceptance by the edit's id; the client has made the edit."""
    ls.session.next_edits.accept(_number(ACCEPT_NEXT_EDIT, arguments))


def refuse_next_edit(ls: EfimServer, *arguments: object) -> None:
    """Never offer an edit again, by its id."""
    ls.session.next_edits.refuse(_number(REFUSE_NEXT_EDIT, arguments))


def _number(command: str, arguments: tuple[object, ...]) -> str:
    match arguments:
        case (str(number),):
            return number
        case _:
            raise JsonRpcInvalidParams(f"expected {command} with a next edit's id")


def _described(ls: EfimServer, offer: OfferedEdit) -> dict[str, object]:
    """Return an offer as clients read it: the replaced range, its version, and the command to run afterwards."""
    document, edit = offer.document, offer.told
    places = (edit.at, edit.at + len(edit.removed))
    start, end = (types.Position(*document.position(each, ls.encoding)) for each in places)
    return {
        "text": edit.added.replace("\n", document.line_end),
        "range": types.Range(start, end),
        "textDocument": {"uri": document.uri, "version": document.version},
        "command": types.Command("Accept a next edit", ACCEPT_NEXT_EDIT, arguments=[offer.number]),
    }
