"""Import statements at the top of a document, and the place of a new one among them."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES
from efim_ls.text.document import Document, Edit
from efim_ls.text.lines import enclosing_line, line_start
from efim_ls.text.outline import Importable

ITEM = re.compile(r"[^,\s][^,]*?(?=\s*(?:,|\Z))")
# What stands above the first statement of a file: blank lines, comments, a docstring, a package's name, a tag.
PREAMBLE = re.compile(
    r"(?:[ \t]*(?:#[^\r\n]*|//[^\r\n]*|/\*(?s:.*?)\*/|\"\"\"(?s:.*?)\"\"\"|#!?\[[^\r\n]*\]|<\?php"
    r"|(?:package|namespace)[ \t]+[\w.\\]+;?|declare[ \t]*\([^()\r\n]*\);)?[ \t]*(?:\r\n|\n|\r))*"
)


class ImportStatement(NamedTuple):
    """An import by offsets in a document: the module, and where its list of names begins and ends, if it has one."""

    start: int
    end: int
    module: str
    names: tuple[int, int] | None
    found: re.Match[str]

    @property
    def bound(self) -> tuple[int, int]:
        """Where the names that it binds stand: all of it, except a module that is written apart from them."""
        end = self.found.start("quote") if "quote" in self.found.groupdict() else self.end
        return self.names or (self.start, end)


def import_statements(document: Document) -> list[ImportStatement]:
    """Return a document's imports at the top level, in order; empty for a language whose imports cannot be read."""
    form, text = LANGUAGES[document.language].imports, document.text
    if form is None:
        return []
    blocks = [each.span() for each in form.block.finditer(text)] if form.block else [(0, len(text))]
    return [_statement(each) for start, end in blocks for each in form.statement.finditer(text, start, end)]


def added_import(document: Document, importable: Importable) -> Edit | None:
    """Return the edit that adds an import to a document; None for a language whose imports cannot be written."""
    form = LANGUAGES[document.language].imports
    if form is None:
        return None
    statements = import_statements(document)
    for each in statements:
        if each.module == importable.module and importable.name:
            if each.names:
                return _listed(document.text, each.names, importable.name)
            if single := each.found.groupdict().get("single"):
                at = each.found.start("single")
                return Edit(at, single, f"{{{', '.join(sorted((single, importable.name)))}}}")
    line = form.line(importable.module, importable.name, statements[-1].found if statements else None)
    if not statements:
        return _above_all(document.text, line)
    return _among(document.text, statements, importable.module, line, form.apart)


def _statement(found: re.Match[str]) -> ImportStatement:
    groups = found.groupdict()
    listed = next((name for name in ("names", "wrapped") if ITEM.search(groups.get(name) or "")), None)
    names = found.span(listed) if listed else None
    return ImportStatement(*found.span(), groups["module"] or groups["plain"], names, found)


def _listed(text: str, span: tuple[int, int], name: str) -> Edit:
    """Return the edit that adds a name to a list, in its order if it has one."""
    items = [each.span() for each in ITEM.finditer(text[: span[1]], span[0])]
    names = [text[start:end] for start, end in items]
    order = next((key for key in _ORDERS if names == sorted(names, key=key)), None)
    before = bisect(names, order(name), key=order) if order else len(names)
    blanks = text[items[-2][1] + 1 : items[-1][0]] if len(items) > 1 else " "
    if "\n" in text[span[0] : items[0][0]]:
        blanks = text[span[0] : items[0][0]]
    if before < len(names):
        return Edit(items[before][0], "", f"{name},{blanks}")
    return Edit(items[-1][1], "", f",{blanks}{name}")


def _by_kind(name: str) -> str:
    """Return where a name stands if constants are before classes, and these before the rest."""
    return f"{0 if name.isupper() else 1 if name[:1].isupper() else 2}{name}"


_ORDERS = (_by_kind, str, str.lower)


def _among(text: str, statements: Sequence[ImportStatement], module: str, line: str, apart: bool) -> Edit:
    """Return the edit that adds a line next to the statements whose modules begin like its own.

    If there are none, the line comes last; `apart`: with a blank line above it.
    """
    alike = [len(commonprefix([_steps(each.module), _steps(module)])) for each in statements]
    if not max(alike):
        at = enclosing_line(text, statements[-1].end)[1]
        return Edit(at, "", f"\n\n{line}" if apart else f"\n{line}")
    group = [each for each, steps in zip(statements, alike, strict=True) if steps]
    is_sorted = all(one.module <= other.module for one, other in pairwise(group))
    before = [each for each in group if not is_sorted or each.module <= module]
    if not before and (start := enclosing_line(text, group[0].start)[0]):
        return Edit(enclosing_line(text, line_start(text, start - 1))[1], "", f"\n{line}")
    return Edit(enclosing_line(text, (before or group[:1])[-1].end)[1], "", f"\n{line}")


def _steps(module: str) -> list[str]:
    """Return the parts of a module's name; parts of relative modules begin alike."""
    if module.startswith("."):
        return [".", *filter(None, re.split(r"[./]+", module))]
    return re.split(r"::|[./\\]", module)


def _above_all(text: str, line: str) -> Edit:
    """Return the edit that adds a file's first import, below its docstring or the comments at its start."""
    preamble = PREAMBLE.match(text)
    above = preamble[0].rstrip() if preamble else ""
    return Edit(len(above), "", f"\n\n{line}") if above else Edit(0, "", f"{line}\n\n")
