"""What a suggestion looks like in a completion menu: one readable line, and all of it beside."""

from __future__ import annotations

from re import findall
from textwrap import dedent, indent

from lsprotocol import types

from efim_ls.request import Request
from efim_ls.text.document import Encoding, units
from efim_ls.text.lines import line_start

TRIGGERS = (".", "(")  # not line ends or blanks: the next Enter or Tab would take what the user did not ask for
FIRST = " "  # sorts before what other servers offer: a whole line is what this one is asked for
LONGEST_WORD = 200  # characters that are looked at: a line may be one huge word, and the loop waits
LONGEST_LABEL = 60  # characters: menus in terminals become as wide as their widest label


def word_start(text: str, cursor: int) -> int:
    """Return where the word that ends at the cursor begins."""
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
    """Return an item that replaces the word typed so far by itself and `text`: menus filter by whole words.

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
    """Return the lines with their relative indentation; the first line's own is no part of the suggestion."""
    line = request.text[line_start(request.text, request.cursor) : request.cursor]
    indentation = line[: len(line) - len(line.lstrip())]
    return dedent(indentation + whole).strip("\r\n")


def _documentation(code: str, language: str, client: types.ClientCapabilities) -> types.MarkupContent | str:
    """Return code in a fence, longer than any in it, where the client prefers Markdown; elsewhere indented.

    Some clients take all documentation for Markdown whatever they say (Helix): indented text is code there, too.
    """
    completion = client.text_document and client.text_document.completion
    item = completion and completion.completion_item
    formats = (item and item.documentation_format) or [types.MarkupKind.PlainText]
    if formats[0] != types.MarkupKind.Markdown:
        return indent(code, "    ")
    fence = "`" * max(3, 1 + max(map(len, findall("`+", code)), default=0))
    return types.MarkupContent(types.MarkupKind.Markdown, f"{fence}{language}\n{code}\n{fence}")
