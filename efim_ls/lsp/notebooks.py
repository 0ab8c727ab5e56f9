"""Handlers of messages about notebooks, whose cells are documents in an order.

Like those about texts they are read less strictly than by LSP's types: an edit that is dropped falsifies later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from efim_ls.lsp.language_server import EfimServer
from efim_ls.lsp.protocol import changes_of, language_and_text, version_of


def did_open(ls: EfimServer, params: Any) -> None:
    """Open the cells of a notebook, in their order."""
    match params:
        case {"notebookDocument": {"uri": str(uri), "cells": [*cells]}, "cellTextDocuments": [*texts]}:
            ls.documents.notebooks.open(uri, list(_cells(cells)))
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
            ls.documents.notebooks.splice(uri, start, count, list(_cells(array.get("cells") or ())))
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
        named = {"textDocument": each}
        language, text = language_and_text(named)
        for uri in _uris((each,)):
            document = ls.session.open(uri, language, text or "", version_of(named))
            if text is None:
                document.out_of_step = True
                ls.report_out_of_step(uri)


def _edit(ls: EfimServer, change: Any) -> None:
    for uri in _uris((change.get("document"),)):
        if (document := ls.documents.use(uri)) is None:
            continue
        was_in_step = not document.out_of_step
        ls.session.edit(document, changes_of({"contentChanges": change.get("changes")}, ls.encoding))
        if was_in_step and document.out_of_step:
            ls.report_out_of_step(uri)
        document.version = version_of({"textDocument": change["document"]})


def _cells(cells: Iterable[Any]) -> Iterable[str]:
    """Yield the URIs of a notebook's cells."""
    for each in cells:
        match each:
            case {"document": str(uri)}:
                yield uri
            case _:
                pass


def _uris(documents: Iterable[Any]) -> Iterable[str]:
    for each in documents:
        match each:
            case {"uri": str(uri)}:
                yield uri
            case _:
                pass
