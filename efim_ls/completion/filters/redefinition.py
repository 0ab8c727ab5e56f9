"""Ends a suggestion before it defines a name that its scope already has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from efim_ls.completion.filters.place import Place, indent_of, lines_with
from efim_ls.languages.forms.language import Language
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.lines import line_start, lines_upwards

DEFINING_WORDS = ("def", "class", "func", "type", "const", "let", "enum", "interface", "{")  # each has one of them
_MAY_REPEAT = frozenset({"_", "init"})  # a name that is never used, and Go's initializers
_OVERLOADED = re.compile(r"@(?:[\w.]+\.)?(?:overload|setter|getter|deleter|register|\w*dispatch\w*)\b|#\[cfg\b")
_LONGEST_DECORATORS = 20  # lines
_Definition = re.Match[str]


def redefinition(text: str, place: Place) -> str:
    """End before a function, class, test or constant, and its decorators, whose name its scope already has.

    A name that the user typed may repeat, and so may overloads, setters, and definitions in other branches.
    """
    language = LANGUAGES[place.language]
    if (pattern := language.definition) is None:
        return text
    lines, whole = text.split("\n"), lines_with(text, place)
    for number, line in enumerate(whole):
        found = pattern.match(line)
        if found is None or (number == 0 and found.end("name") <= len(place.before)):
            continue
        above = place.above + "".join(f"{each}\n" for each in whole[:number])
        if _is_defined(found, language, above, place.below):
            decorators = _decorators(above, found["indent"], language.decorator)
            return "\n".join(lines[: max(0, number - len(decorators))])
    return text


def _is_defined(found: _Definition, language: Language, above: str, below: str) -> bool:
    """Return whether the scope of a definition has its name, unless decorators of either say that it may."""
    name, indent = found["name"], found["indent"]
    if name in _MAY_REPEAT or (name not in above and name not in below):
        return False
    mark, same = language.decorator, False
    decorators = _decorators(above, indent, mark)
    for scope in (_end_of_scope(above, indent), _beginning_of_scope(below, indent)):
        for other in _definitions(name, found.re, scope):
            if _key(other) == _key(found):
                same, decorators = True, decorators + _decorators(scope[: other.start()], indent, mark)
    return same and not any(_OVERLOADED.match(each) or each.startswith(f"@{name}.") for each in decorators)


def _key(definition: _Definition) -> tuple[str, str | None]:
    """Return what sets definitions of a name apart: where they stand, a receiver, and whether they get or set."""
    return definition["indent"], definition.groupdict().get("owner")


def _definitions(name: str, pattern: re.Pattern[str], scope: str) -> Iterator[_Definition]:
    at = scope.find(name)
    while at >= 0:
        found = pattern.match(scope, line_start(scope, at))
        if found and found.span("name") == (at, at + len(name)):
            yield found
        at = scope.find(name, at + len(name))


def _end_of_scope(above: str, indent: str) -> str:
    """Return the text after the last line that is indented less, such as the header of a class."""
    if not indent:
        return above
    end = len(above)
    for start in lines_upwards(above, len(above)):
        if _leaves(above[start:end], indent):
            return above[end:]
        end = start
    return above


def _beginning_of_scope(below: str, indent: str) -> str:
    """Return the text before the first line that is indented less."""
    at = 0
    for line in below.splitlines(keepends=True) if indent else ():
        if _leaves(line, indent):
            return below[:at]
        at += len(line)
    return below


def _leaves(line: str, indent: str) -> bool:
    return bool(line.strip()) and len(indent_of(line)) < len(indent)


def _decorators(above: str, indent: str, mark: str) -> list[str]:
    """Return the lines of decorators at the end of a text, without their indentation."""
    found: list[str] = []
    lines = above[-4000:].splitlines()[-_LONGEST_DECORATORS:]
    for count, line in enumerate(reversed(lines), 1):
        own = line[len(indent) :] if line.startswith(indent) else ""
        if own.startswith(mark):
            found = [each.strip() for each in lines[-count:]]
        elif not own.startswith((" ", "\t", ")", "]", "}")):  # of an argument list in several lines
            break
    return found
