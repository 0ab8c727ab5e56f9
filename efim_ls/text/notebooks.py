"""Which documents are cells of one notebook, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit


class Notebooks:
    """The cells of notebooks by their URIs: as a client sends them, else as they were opened.

    Cells that a client opens as documents alone are recognized by their URIs, which differ in the fragment only.
    """

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}  # by notebook
        self._told: dict[str, str] = {}  # the notebook of a cell

    def open(self, notebook: str, cells: Sequence[str]) -> None:
        """Take the cells of a notebook that a client tells."""
        self.close(notebook)
        self._cells[notebook] = list(cells)
        self._told |= dict.fromkeys(cells, notebook)

    def splice(self, notebook: str, start: int, count: int, cells: Sequence[str]) -> None:
        """Replace some cells of a notebook; a moved cell is removed and put elsewhere."""
        known = self._cells.setdefault(notebook, [])
        for each in known[start : start + count]:
            self._told.pop(each, None)
        known[start : start + count] = cells
        self._told |= dict.fromkeys(known, notebook)

    def close(self, notebook: str) -> Sequence[str]:
        """Forget a notebook; return its cells."""
        cells = self._cells.pop(notebook, [])
        for each in cells:
            self._told.pop(each, None)
        return cells

    def note(self, uri: str) -> None:
        """Note a document that is opened: it may be a cell whose notebook no client tells."""
        if uri not in self._told and (notebook := _notebook_of(uri)):
            cells = self._cells.setdefault(notebook, [])
            if uri not in cells:
                cells.append(uri)

    def forget(self, uri: str) -> None:
        """Forget the notebook of a cell, unless a client has opened it: none of its cells is open any more."""
        if uri not in self._told:
            self._cells.pop(_notebook_of(uri), None)

    def around(self, uri: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the cells above and below one, none if it is no cell."""
        cells = self._cells.get(self._told.get(uri) or _notebook_of(uri), []) if self._cells else []
        if uri not in cells:
            return (), ()
        at = cells.index(uri)
        return cells[:at], cells[at + 1 :]


def _notebook_of(uri: str) -> str:
    """Return the URI of the notebook of a cell, empty if a URI is no cell's: names of files may have `#`."""
    notebook, _, cell = uri.partition("#")
    parts = urlsplit(notebook)
    return notebook if cell and parts.path and (parts.scheme != "file" or parts.path.endswith(".ipynb")) else ""
