"""Parameters of a definition, and arguments of a call: what stands in parentheses, split at its commas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from efim_ls.languages.forms.language import CallForm
from efim_ls.languages.table import LANGUAGES

LONGEST = 2000  # characters between two parentheses
OPENING, CLOSING = "([{", ")]}"
NAME = re.compile(
    r"(?:(?:mut|ref|public|private|protected|readonly|override)\s+)*(?P<star>\*{0,2}|\.{3})(?P<name>[^\W\d]\w*)"
    r"(?P<optional>\?)?"
)
RECEIVERS = re.compile(r"(?:self|cls)$|this\s*:|(?:&\s*(?:'\w+\s+)?)?(?:mut\s+)?self\b")
LAST_NAME = re.compile(r"(?P<name>\$?[^\W\d]\w*)(?:\s*\[\s*\])*(?P<optional>\s*=.*)?\Z", re.DOTALL)  # behind its type
KEYWORD_ONLY = re.compile(r"(?P<name>[^\W\d]\w*):(?!:)\s*(?P<optional>\S.*)?", re.DOTALL)


class Item(NamedTuple):
    """What stands between two commas without the blanks around it, and where."""

    text: str
    start: int
    end: int


class Items(NamedTuple):
    """The items of a list, and where it ends: the offset of the closing parenthesis."""

    items: Sequence[Item]
    end: int


class Parameter(NamedTuple):
    """A parameter: its name, or all of it if it has none, and how it may be passed."""

    name: str
    optional: bool
    variadic: bool
    by_keyword: bool  # only

    @property
    def is_named(self) -> bool:
        """Whether it can be passed on by its name."""
        return not self.variadic and self.name.isidentifier() and self.name != "_"


def items(text: str, start: int, language: str, types: bool = False) -> Items | None:
    """Split a list at its commas, from the offset behind its opening parenthesis; None if it does not end soon.

    With `types`, a comma between angle brackets separates nothing.
    """
    pattern = _scanned(LANGUAGES[language].calls.skipped)
    opened, angles, begins = 0, 0, start
    found = list[Item]()
    for each in pattern.finditer(text, start, start + LONGEST):
        mark, at = each[0], each.start()
        if mark in OPENING:
            opened += 1
        elif mark in CLOSING and opened:
            opened -= 1
        elif types and mark in "<>":
            angles += 1 if mark == "<" else -1
        elif (mark == "," or mark in CLOSING) and not opened and not angles:
            if item := _item(text, begins, at):
                found.append(item)
            begins = at + 1
        if mark in CLOSING and begins == at + 1:
            return Items(found, at)
    return None


def parameters(text: str, start: int, language: str) -> Sequence[Parameter] | None:
    """Return the parameters of a definition, without its receiver, from behind the opening parenthesis."""
    listed = items(text, start, language, types=True)
    if listed is None:
        return None
    form, found, by_keyword = LANGUAGES[language].calls, list[Parameter](), False
    for number, item in enumerate(listed.items):
        if item.text in ("*", "/") or (number == 0 and RECEIVERS.match(item.text)):
            by_keyword = by_keyword or item.text == "*"
            continue
        found.append(parameter(item.text, form, by_keyword))
        by_keyword = by_keyword or (found[-1].variadic and form.by_keyword)
    return found


def keyword(item: Item, language: str) -> str:
    """Return the name by which an argument is passed; empty if it has none."""
    form = LANGUAGES[language].calls
    mark = form.keyword_mark
    found = re.match(rf"([^\W\d]\w*)\s*{mark}(?!{mark})", item.text) if form.by_keyword else None
    return found[1] if found else ""


def parameter(text: str, form: CallForm, by_keyword: bool) -> Parameter:
    """Return the parameter of a text; `by_keyword`: it can be passed by its keyword alone."""
    if form.names_last:
        last = LAST_NAME.search(text)
        return Parameter(last["name"] if last else text, bool(last and last["optional"]), "..." in text, by_keyword)
    if form.by_keyword and form.keyword_mark == ":" and (only := KEYWORD_ONLY.match(text)):
        return Parameter(only["name"], bool(only["optional"]), False, True)
    named = NAME.match(text)
    variadic = bool(named and named["star"]) or bool(re.search(r"\s\.{3}", text))
    optional = bool(named and named["optional"]) or re.search(r"(?<![=!<>])=(?![=>])", text) is not None
    return Parameter(named["name"] if named else text, optional, variadic, by_keyword)


def _item(text: str, start: int, end: int) -> Item | None:
    piece = text[start:end]
    begins = start + len(piece) - len(piece.lstrip())
    return Item(piece.strip(), begins, start + len(piece.rstrip())) if piece.strip() else None


@cache
def _scanned(skipped: str) -> re.Pattern[str]:
    """Return a pattern for skipped text, for arrows, which close nothing, and for brackets and commas."""
    return re.compile(rf"{skipped}|[=-]>|[(\[{{)\]}}<>,]")
