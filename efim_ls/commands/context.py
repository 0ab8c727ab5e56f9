"""`efim-ls context`: prints what a suggestion at a place in a file is made from."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from efim_ls.access.reasons import as_dict, why_empty
from efim_ls.commands.arguments import check_model
from efim_ls.failures import FilePlace
from efim_ls.request import Request, Upcoming
from efim_ls.session.one_shot import cursor_at, load, read, with_repository
from model_runtime.cancel import NEVER

COSTS = {"kept": "green", "ahead": "cyan", "disk": "blue", "recomputed": "yellow"}
SPEAKERS = ("model", "file", "repository")
EXCERPT = 34  # characters of a part's text on a line of 80 columns
LEGEND = """
cost:  tokens kept in memory, computed ahead of need, read back from disk, or
       recomputed for this suggestion
sure:  how likely a word is, if all before it is right
model, file, repository: how much of that each said; file is this file and
       other open ones"""

Explained = Mapping[str, Any]  # as `efim/explain` answers


def show(place: FilePlace, as_json: bool, model: str, shows_excerpts: bool = False) -> int:
    """Print what a suggestion at a place is made from, as tables or as the JSON object of `efim/explain`.

    With `shows_excerpts` the model reads text of other files.
    """
    document = read(place.path)
    check_model(model)
    cursor, moved = cursor_at(document, place)
    if moved:
        print(f"efim-ls: {moved}", file=sys.stderr)
    completer = load(model, shows_excerpts)
    request = Request(document.uri, document.text, cursor, least="balanced", language=document.language)
    budget = completer.excerpt_budget
    request = with_repository(request, model, completer.tokenizers, unindexed=True, excerpts=budget)
    if shows_excerpts:
        completer.prepare(Upcoming(request, "rested"), NEVER)
    answer = completer.complete(request, NEVER)
    explained = completer.explain(request, answer) | as_dict(why_empty(answer))
    if as_json:
        print(json.dumps(explained))
        return 0
    console = Console()
    for each in page(explained, os.getcwd()):
        console.print(each, markup=False, highlight=False)
    return 0


def page(explained: Explained, folder: str) -> Iterator[RenderableType]:
    """Yield what people read: the prompt's parts, then the suggestion or why there is none; places as in a folder."""
    if parts := explained["parts"]:
        yield from (_prompt(parts), "")
    if excerpts := explained.get("excerpts"):
        yield from (_excerpts(excerpts, folder), "")
    if rest := explained["rest"].strip():
        yield Text(f"the rest of the line, which the model does not see: {rest}\n")
    if explained["why"]:
        yield Text(f"no suggestion: {explained['why']}\n")
    elif explained["notice"]:
        yield Text(f"{explained['notice']}\n")
    if suggested := explained["suggestion"]:
        if suggested["words"]:
            yield _suggestion(suggested, folder)
        else:
            yield Text(f"suggestion: {suggested['shown']}")
    yield Text(LEGEND)


def _prompt(parts: Sequence[Explained]) -> Table:
    table = Table("prompt", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("tokens", justify="right")
    table.add_column("cost")
    table.add_column("text", no_wrap=True)
    for part in parts:
        cost = part["cost"]
        table.add_row(part["part"], f"{part['tokens']:,}", Text(cost, COSTS[cost]), Text(_excerpt(part["text"])))
    return table


def _excerpts(excerpts: Sequence[Explained], folder: str) -> Table:
    table = Table("other files", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("tokens", justify="right")
    for name in ("cost", "lines", "why"):
        table.add_column(name)
    for each in excerpts:
        cost, lines = each["cost"], each["lines"]
        whole = lines[-1] - lines[0] + 1 == len(lines) > 1
        numbers = f"{lines[0]}-{lines[-1]}" if whole else ", ".join(map(str, lines))
        place = f"{each['place']}: {_within(each['file'], folder)}"
        table.add_row(
            *map(Text, (place, f"{each['tokens']:,}")), Text(cost, COSTS[cost]), Text(numbers), Text(each["why"])
        )
    return table


def _suggestion(suggested: Explained, folder: str) -> Table:
    table = Table("suggestion", box=box.SIMPLE_HEAD, show_edge=False)
    for name in ("sure", *SPEAKERS):
        table.add_column(name, justify="right")
    table.add_column("places")
    shown, hidden = _parted(suggested["words"], len(suggested["shown"]))
    for word in shown:
        table.add_row(*_cells(word, folder))
    if hidden:
        table.add_section()
        table.add_row("hidden:", style="dim")
    for word in hidden:
        table.add_row(*_cells(word, folder), style="dim")
    return table


def _parted(words: Sequence[Explained], shown: int) -> tuple[Sequence[Explained], Sequence[Explained]]:
    """Split words behind the first `shown` characters of their text."""
    ends = accumulate(len(word["text"]) for word in words)
    count = sum(end <= shown for end in ends)
    return words[:count], words[count:]


def _cells(word: Explained, folder: str) -> tuple[Text, ...]:
    figures = (_percent(word[name]) for name in ("probability", *SPEAKERS))
    places = [f"{_within(each['path'], folder)}:{each['line']}" for each in word["from"]]
    sources = "\n".join(filter(None, (word["source"], *places)))
    return tuple(map(Text, (_visible(word["text"]), *figures, sources)))


def _excerpt(text: str) -> str:
    """Return the first and last words of a text, on one line."""
    line = " ".join(text.split())
    half = (EXCERPT - 3) // 2
    return line if len(line) <= EXCERPT else f"{line[:half]} … {line[-half:]}"


def _visible(word: str) -> str:
    return word.replace("\n", "↵").strip(" ") or word


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _within(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if path.startswith(folder + os.sep) else path
