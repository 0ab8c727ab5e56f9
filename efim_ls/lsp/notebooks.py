"""Handlers of messages about notebooks, whose cells are documents in an order.

Like those about texts they are read less strictly than by LSP's types: an edit that is dropped falsifies later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from efim_ls.lsp.language_server import EfimServer


def did_open(ls: EfimServer, params: Any) -> None:
    """Open the cells of a notebook, in their order."""
    match params:
        case {"notebookDocument": {"uri": str(uri), "cells": [*cells]}, "cellTextDocuments": [*texts]}:
            ls.documents.notebooks.open(uri, list(_uris(cells, "document")))
            _open(ls, texts)
        case _:
            ls.report_out_of_step("a notebook")


def did_change(ls: EfimServer, params: Any) -> None:
    """Insert, remove or move cells, and edit their texts."""
    match params:
        case {"notebookDocument": {"uri": str(uri)}, "change": {"cells": {**changed}}}:
            pass
        case _:
            return
    match changed.get("structure"):
        case {"array": {"start": int(start), "deleteCount": int(count), **array}, **structure}:
            ls.documents.notebooks.splice(uri, start, count, list(_uris(array.get("cells") or (), "document")))
            _open(ls, structure.get("didOpen") or ())
            for each in _uris(structure.get("didClose") or ()):
                ls.session.close_document(each)
        case _:
            pass
    for each in changed.get("textContent") or ():
        _edit(ls, each)


def did_close(ls: EfimServer, params: Any) -> None:
    """Close a notebook with its cells."""
    match params:
        case {"notebookDocument": {"uri": str(uri)}, **rest}:
            cells = ls.documents.notebooks.close(uri)
            for each in dict.fromkeys((*cells, *_uris(rest.get("cellTextDocuments") or ()))):
                ls.session.close_document(each)
        case _:
            pass


def _open(ls: EfimServer, texts: Iterable[Any]) -> None:
    for each in texts:
        for uri in _uris((each,)):
            ls.open_document(uri, {"textDocument": each})


def _edit(ls: EfimServer, change: Any) -> None:
    for uri in _uris((change.get("document"),)):
        if (document := ls.documents.use(uri)) is not None:
            message = {"textDocument": change["document"], "contentChanges": change.get("changes")}
            ls.edit_document(document, message)


def _uris(named: Iterable[Any], field: str = "uri") -> Iterable[str]:
    """Yield the URIs of documents, or of a notebook's cells, whose field is another."""
    for each in named:
        match each:
            case {**fields} if isinstance(uri := fields.get(field), str):
                yield uri
            case _:
                pass
