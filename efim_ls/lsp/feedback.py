"""What a client tells of the suggestions that it got: one function for each message."""

from __future__ import annotations

from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.lsp.language_server import EfimServer
from efim_ls.text.document import Encoding

ACCEPT = "efim-ls.accept"


def accept(ls: EfimServer, *arguments: object) -> None:
    """A suggestion was accepted: its id and, where it was not accepted whole, a length in the client's units."""
    match arguments:
        case (str(number),):
            _accepted(ls, number, None, ls.encoding)
        case (str(number), int(length)):
            _accepted(ls, number, length, ls.encoding)
        case _:
            raise JsonRpcInvalidParams(f"{ACCEPT} takes a suggestion's id and perhaps a length")


def did_show(ls: EfimServer, params: object) -> None:
    """A suggestion was seen."""
    offers = ls.session.fates.offers
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}}:
            if (offer := offers.find(number)) is not None:
                offers.tell(offer, "shown")
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}}")


def did_partially_accept(ls: EfimServer, params: object) -> None:
    """The beginning of a suggestion was accepted, in UTF-16 units whatever those of positions are."""
    match params:
        case {"item": {"command": {"arguments": [str(number)]}}, "acceptedLength": int(length)}:
            _accepted(ls, number, length, "utf-16")
        case _:
            raise JsonRpcInvalidParams("expected {item: {command: {arguments: [id]}}, acceptedLength}")


def _accepted(ls: EfimServer, number: str, length: int | None, encoding: Encoding) -> None:
    session = ls.session
    if (offer := session.fates.offers.find(number)) is not None:
        session.fates.accepted(offer, session.documents.get(offer.suggestion.uri), length, encoding)
