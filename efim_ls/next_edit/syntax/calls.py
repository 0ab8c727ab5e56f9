"""Calls of a definition, and how they follow a change of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.pattern import nearest
from efim_ls.next_edit.syntax.definitions import ChangedDefinition, Item, Items, Parameter, items, keyword
from efim_ls.text.document import Document

MOST_CALLS = 32  # the nearest calls that are read
SPREAD = re.compile(r"\*|\.\.\.|.*\.\.\.$", re.DOTALL)  # before or behind arguments that may be several
DEFINING = re.compile(r"\b(?:def|fn|func|function\*?|class)\s+(?:\([^()]*\)\s*)?$")


class ParameterChange(NamedTuple):
    """The change of one parameter, by its number: `old` went, `new` came, or one took the other's place."""

    number: int
    old: Parameter | None
    new: Parameter | None


class Call(NamedTuple):
    """A call: the line and the offset where its arguments begin, these, and whether they end on that line."""

    line: int
    start: int
    arguments: Items
    on_a_line: bool


class Step(NamedTuple):
    """How a call follows: what stands from one offset to another becomes `added`, if a variable is bound there."""

    start: int
    end: int
    added: str
    variable: str = ""


def changed_parameter(definition: ChangedDefinition) -> ParameterChange | None:
    """Return the one parameter that was added, removed or replaced; None if it is none, or more than one."""
    before, after = definition.before, definition.after
    old, new = ([each.name for each in side] for side in (before, after))
    number = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    removed = next(iter(before[number:]), None) if len(old) >= len(new) else None
    added = next(iter(after[number:]), None) if len(new) >= len(old) else None
    rest = old[number + (removed is not None) :], new[number + (added is not None) :]
    named = [each.is_named for each in (removed, added) if each]
    if not named or not all(named) or rest[0] != rest[1]:
        return None
    return ParameterChange(number, removed, added)


def calls(document: Document, cursor: int, definition: ChangedDefinition) -> Iterator[Call]:
    """Yield the calls of a definition, the nearest to the cursor first."""
    text = document.text
    found = [each.end() for each in definition.calls.finditer(text, *definition.visible)]
    for at, start, line in islice(nearest(text, found, cursor), MOST_CALLS):
        name = text.rfind(definition.name, start, at)
        if at == definition.start + 1 or DEFINING.search(text[start:name]):
            continue
        arguments = items(text, at, document.language)
        if arguments is not None:
            yield Call(document.line_of(at), at, arguments, arguments.end < start + len(line))


def followed(
    call: Call, before: Sequence[Parameter], what: ParameterChange, passed: str, language: str
) -> Step | None:
    """Return how a call that fits the old parameters follows the change of one; None if it does not.

    `passed` is the argument for a new parameter.
    """
    arguments, old, new = call.arguments.items, what.old, what.new
    if any(SPREAD.match(each.text) for each in arguments):
        return None
    names = [keyword(each, language) for each in arguments]
    if not _fits(names, before):
        return None
    if old is None:
        return _added(call, names, what.number, new, passed, language) if new and call.on_a_line else None
    by_name = old.name in names
    number = names.index(old.name) if by_name else what.number
    if number >= names.count("") and not by_name:
        return None
    item = arguments[number]
    if new is None:
        return _removed(arguments, number) if call.on_a_line else None
    if by_name:
        return Step(item.start, item.start + len(old.name), new.name)
    return Step(item.start, item.end, new.name, new.name) if item.text == old.name else None


def argument(call: Call, number: int, name: str, language: str) -> str:
    """Return what a call passes for a parameter, by its number or name; empty if it does not."""
    plain = [each for each in call.arguments.items if not keyword(each, language)]
    by_name = (each.text for each in call.arguments.items if keyword(each, language) == name)
    if given := next(by_name, None):
        return given.partition(LANGUAGES[language].calls.keyword_mark)[2].strip()
    return plain[number].text if number < len(plain) else ""


def _fits(names: Sequence[str], expected: Sequence[Parameter]) -> bool:
    """Return whether arguments, by their names or none, can be passed for parameters."""
    plain = names.count("")
    places = [each for each in expected if not each.by_keyword and not each.variadic]
    known = {each.name for each in expected}
    if not any(each.variadic for each in expected) and (
        plain > len(places) or not known.issuperset(filter(None, names))
    ):
        return False
    return all(each.optional or each.name in names for each in places[plain:])


def _added(call: Call, names: Sequence[str], number: int, new: Parameter, passed: str, language: str) -> Step | None:
    arguments, text = call.arguments.items, passed
    if new.name in names or any(each.text == passed for each in arguments):
        return None
    if new.by_keyword or number > names.count(""):
        form = LANGUAGES[language].calls
        if not form.by_keyword:
            return None
        mark = f"{form.keyword_mark} " if form.keyword_mark == ":" else form.keyword_mark
        text, number = f"{new.name}{mark}{passed}", len(arguments)
    if not arguments:
        return Step(call.start, call.start, text, passed)
    if number == len(arguments):
        return Step(arguments[-1].end, arguments[-1].end, f", {text}", passed)
    start = arguments[number].start
    return Step(start, start, f"{text}, ", passed)


def _removed(arguments: Sequence[Item], number: int) -> Step:
    """Return how an argument goes, with the comma before it, or behind it."""
    start, end = arguments[number].start, arguments[number].end
    if number > 0:
        start = arguments[number - 1].end
    elif len(arguments) > 1:
        end = arguments[1].start
    return Step(start, end, "")
