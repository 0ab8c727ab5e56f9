"""Handles the names that a client's other language servers list where a name begins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from pygls.exceptions import JsonRpcInvalidParams

from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.protocol import position_of, version_of
from efim_ls.text.listed_names import is_whole_list, read_names

DID_LIST_NAMES = "efim/names"
MOST_NAMES = 5000  # of a list: a larger one is of all that is visible, not of members
RECEIVES = (".", "->", "::")  # between a receiver and its member
LONGEST_LISTER = 40  # characters of a server's name that people are shown

logger = logging.getLogger(__name__)


def did_list_names(ls: EfimServer, params: Any) -> None:
    """Take the names that another server lists where a name begins, unless the text has changed in front of it."""
    match params:
        case {"textDocument": {"uri": str(uri)}, "position": raw, "items": list()} if position := position_of(raw):
            message, document = cast("Mapping[str, object]", params), ls.documents.get(uri)
        case _:
            raise JsonRpcInvalidParams("expected {textDocument: {uri, version}, position, items: [{label}]}")
    items, server = cast("list[object]", message["items"]), message.get("server")
    if document is None:
        return
    if len(items) > MOST_NAMES:
        logger.info("ignoring a list of %s names: more than %s are no members", f"{len(items):,}", f"{MOST_NAMES:,}")
        return
    lister = "".join(filter(str.isprintable, server))[:LONGEST_LISTER] if isinstance(server, str) else ""
    is_whole = is_whole_list(document.language, message.get("isIncomplete") is True, len(items))
    start = document.offset(*position, ls.encoding)
    listed = read_names(items, start, lister or "another server", is_whole)
    # Elsewhere a list has names of all kinds, of which none has to stand there.
    if listed and (listed.kind == "keyword" or document.text.endswith(RECEIVES, 0, start)):
        is_outdated = document.list_names(listed, version_of(params))
        if is_outdated and (improved := ls.session.requests.improved):
            improved(uri)  # the client asks again: for a name that exists
