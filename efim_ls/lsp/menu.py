"""A suggestion as a completion menu item: one readable line, with the whole text as its documentation."""

from __future__ import annotations

from re import findall
from textwrap import dedent, indent

from lsprotocol import types

from efim_ls.request import Request
from efim_ls.text.document import Encoding, units
from efim_ls.text.lines import line_start

TRIGGERS = (".", "(")  # not line ends or blanks: the next Enter or Tab would accept an unwanted suggestion
FIRST = " "  # sorts before other servers' items: this one suggests whole lines
LONGEST_WORD = 200  # characters examined: a line may be one huge word, and this blocks the event loop
LONGEST_LABEL = 60  # characters: menus in terminals become as wide as their widest label


def word_start(text: str, cursor: int) -> int:
    """Return the start of the word that ends at the cursor."""
    start = cursor
    while start > max(0, cursor - LONGEST_WORD) and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return start


def menu_item(
    request: Request,
    language: str,
    position: types.Position,
    encoding: Encoding,
    text: str,
    command: types.Command,
    client: types.ClientCapabilities,
) -> types.CompletionItem:
    """Return an item that replaces the typed word with that word and `text`, since menus filter by whole words.

    `position` is the cursor's, in units of `encoding`.
    """
    word = request.text[word_start(request.text, request.cursor) : request.cursor]
    start = types.Position(position.line, position.character - units(word, encoding))
    replaced, whole = types.Range(start, position), word + text
    first, *more = whole.strip().split("\n")
    shown = first[:LONGEST_LABEL].rstrip() + " …" if more or len(first) > LONGEST_LABEL else first
    return types.CompletionItem(
        label=shown,
        kind=types.CompletionItemKind.Text,
        detail="efim-ls",
        documentation=None if shown == first else _documentation(_unindented(request, whole), language, client),
        preselect=False,
        sort_text=FIRST,
        filter_text=first,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(replaced, whole),
        command=command,
    )


def _unindented(request: Request, whole: str) -> str:
    """Return the lines without common indentation; the first line's own is not part of the suggestion."""
    line = request.text[line_start(request.text, request.cursor) : request.cursor]
    indentation = line[: len(line) - len(line.lstrip())]
    return dedent(indentation + whole).strip("\r\n")


def _documentation(code: str, language: str, client: types.ClientCapabilities) -> types.MarkupContent | str:
    """Return the code fenced if the client prefers Markdown, with a longer fence than any in the code; else indented.

    Some clients render all documentation as Markdown regardless (Helix): indented text is code there, too.
    """
    completion = client.text_document and client.text_document.completion
    item = completion and completion.completion_item
    formats = (item and item.documentation_format) or [types.MarkupKind.PlainText]
    if formats[0] != types.MarkupKind.Markdown:
        return indent(code, "    ")
    fence = "`" * max(3, 1 + max(map(len, findall("`+", code)), default=0))
    return types.MarkupContent(types.MarkupKind.Markdown, f"{fence}{language}\n{code}\n{fence}")
