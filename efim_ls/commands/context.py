"""`efim-ls context`: explains the suggestion at a place in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from efim_ls.access.reasons import as_dict, why_empty
from efim_ls.commands.arguments import check_model
from efim_ls.completion.suggestions.explanation_page import PageSection, PageSpan, sections
from efim_ls.failures import FilePlace
from efim_ls.request import Request, Upcoming
from efim_ls.session.one_shot import cursor_at, load, read, with_repository
from efim_ls.text.parts import part_at
from model_runtime.cancel import NEVER

WIDTH = 72  # characters of a part of the prompt
STYLES = {
    "kept": "green", "ahead": "cyan", "disk": "blue", "recomputed": "yellow",
    "model": "blue", "file": "green", "repository": "yellow", "hidden": "dim", "note": "dim",
}  # fmt: skip


def show(place: FilePlace, as_json: bool, model: str, shows_others: bool = False) -> int:
    """Explain a suggestion at a place, for people or as the JSON object of `efim/explain`.

    With `shows_others` the model reads text of other files.
    """
    document = read(place.path)
    check_model(model)
    cursor, moved = cursor_at(document, place)
    if moved:
        print(f"efim-ls: {moved}", file=sys.stderr)
    completer = load(model, shows_others)
    request = Request(document.uri, document.text, cursor, least="balanced", language=document.language)
    request, budget = request.at_part(part_at(document.language, document.text, cursor)), completer.context_budget
    request = with_repository(request, model, completer.tokenizers, unindexed=True, context=budget)
    if shows_others:
        completer.prepare(Upcoming(request, "rested"), NEVER)
    answer = completer.complete(request, NEVER)
    explained = completer.explain(request, answer) | as_dict(why_empty(answer))
    line, column = document.position(cursor, "utf-32")
    drawn = sections(explained, document.uri, line + 1, column + 1)
    if as_json:
        print(json.dumps(explained | {"sections": drawn}))
        return 0
    console = Console()
    for each in page(drawn, os.getcwd()):
        console.print(each, markup=False, highlight=False)
    return 0


def page(drawn: Iterable[PageSection], folder: str) -> Iterator[RenderableType]:
    """Yield the sections of an explanation for a terminal, with paths relative to a folder."""
    for section in drawn:
        rows = [[_text(span, folder) for span in row] for row in section["rows"]]
        if section["title"]:
            yield Text(section["title"], "bold")
        if section["kind"] == "table":
            yield _table(rows)
        for row in rows if section["kind"] != "table" else ():
            yield _shortened(row) if section["kind"] in ("prompt", "folded") else Text.assemble(*row)
        yield ""


def _text(span: PageSpan, folder: str) -> Text:
    text = span["text"]
    if "path" in span and span["path"].startswith(folder + os.sep):
        text = text.replace(span["path"], os.path.relpath(span["path"], folder))
    return Text(text, STYLES.get(span.get("style", ""), ""))


def _table(rows: Sequence[Sequence[Text]]) -> Table:
    """Return a table; between the first and the last column are figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    head, *others = rows
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if 0 < number < len(head) - 1 else "left")
    for row in others:
        table.add_row(*row)
    return table


def _shortened(row: Sequence[Text]) -> Text:
    """Return the first and last characters of a text, on one line."""
    line = " ".join("".join(each.plain for each in row).split())
    half = (WIDTH - 3) // 2
    return Text(line if len(line) <= WIDTH else f"{line[:half]} … {line[-half:]}")
