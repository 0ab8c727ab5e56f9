"""Signatures as excerpts, such as of what one file imports: whole ones, by file, within a budget of tokens."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES, language_of
from efim_ls.text.outline import LONGEST_SIGNATURE, TYPES, Definition, Outline, with_owners
from efim_ls.workspace.database.queries import FoundDefinition
from efim_ls.workspace.imports.paths import DefinitionSource, ImportedName, is_from, read_import
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptPlace

CUT = 4  # characters that may be missing at the end of a signature that was cut off
MOST_MISSES = 16  # signatures in a row that no longer fit, after which the budget is taken to be full

MOST_NAMES = 200  # imported names that are looked up

Name = Callable[[str], str]


class ExcerptRules(NamedTuple):
    """The functions for every excerpt.

    `name` turns a real path into the path that the model reads, `size` counts the tokens of an excerpt in a prompt,
    with its markers, and `is_shown` says whether a file's text may be shown, by its real path.
    """

    name: Name
    size: Callable[[Excerpt], int]
    is_shown: Callable[[str], bool]


class OpenDefinitions:
    """Definitions of an index, in which open documents replace their files."""

    def __init__(self, index: DefinitionSource, opened: Mapping[str, Outline]) -> None:
        """Take the outlines of open documents by their real paths."""
        self._index, self._opened = index, opened

    def definitions(self, name: str) -> list[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        found = [each for each in self._index.definitions(name) if each.path not in self._opened]
        for path, outline in self._opened.items():
            found += (FoundDefinition(path, each) for each in outline.definitions if each.name == name)
        return sorted(found, key=lambda each: (each.path, each.definition.line))

    def outline(self, path: str) -> Outline | None:
        """Return the outline of a file, None if it is not known."""
        return self._opened.get(path) or self._index.outline(path)


class Signature(NamedTuple):
    """A definition in a file, with the type that it is a member of, if it is, and why it is shown."""

    file: str
    definition: Definition
    owner: Definition | None
    why: str


def is_whole(definition: Definition) -> bool:
    """Return whether a signature is all that the file has of it."""
    return 0 < len(definition.signature) <= LONGEST_SIGNATURE - CUT


def excerpts_of(
    signatures: Iterable[Signature], place: ExcerptPlace, tokens: int, rules: ExcerptRules
) -> tuple[Excerpt, ...]:
    """Return excerpts of the first signatures that fit the budget, sorted by path; a member brings its type along."""
    chosen, misses = dict[str, list[Signature]](), 0
    made, spent = dict[str, Excerpt](), dict[str, int]()
    for each in signatures:
        if misses >= MOST_MISSES:
            break
        before = chosen.get(each.file, [])
        if any(each.definition == other.definition for other in before):
            continue
        excerpt = _excerpt(each.file, [*before, each], place, rules.name(each.file))
        needed = rules.size(excerpt)
        if sum(spent.values()) - spent.get(each.file, 0) + needed > tokens:
            misses += 1
            continue
        misses = 0
        chosen[each.file], made[each.file], spent[each.file] = [*before, each], excerpt, needed
    return tuple(made[file] for file in sorted(made, key=lambda file: (made[file].path, file)))


def relative_name(folders: Sequence[str]) -> Name:
    """Return what the model reads of a path: relative to the innermost of these folders, with slashes."""
    innermost = sorted(folders, key=len, reverse=True)

    def name(path: str) -> str:
        above = next((each for each in innermost if path.startswith(os.path.join(each, ""))), None)
        return PurePath(os.path.relpath(path, above) if above else os.path.basename(path)).as_posix()

    return name


def _excerpt(file: str, signatures: Sequence[Signature], place: ExcerptPlace, path: str) -> Excerpt:
    """Return one excerpt of signatures of a file, in the order of its lines."""
    below, reasons = defaultdict[int, dict[int, Definition]](dict), dict[str, None]()
    lines = dict[int, Definition]()
    for each in sorted(signatures, key=lambda each: each.definition.line):
        reasons[each.why] = None
        if each.owner is None:
            lines[each.definition.line] = each.definition
        else:
            lines[each.owner.line] = each.owner
            below[each.owner.line][each.definition.line] = each.definition
    indented, text, shown = LANGUAGES[language_of(file)].indented is not None, list[str](), list[int]()
    for line in sorted(lines):
        members = below[line]
        shown += [line, *sorted(members)]
        text.append(_stub(lines[line], indented, bool(members)))
        text += (f"    {_stub(members[at], indented, False)}" for at in sorted(members))
    return Excerpt(place, path, file, tuple(shown), "\n".join(text) + "\n", "; ".join(reasons))


def _stub(definition: Definition, indented: bool, has_members: bool) -> str:
    """Return a signature as code: where blocks are indented with a colon, and dots for a body that is not shown."""
    if not indented or definition.kind not in ("class", "function", "method"):
        return definition.signature
    return f"{definition.signature}:" if has_members else f"{definition.signature}: ..."


class OpenFile(NamedTuple):
    """An open document by its real path, with its text and its outline."""

    path: str
    text: str
    outline: Outline


def choose_imports(
    index: DefinitionSource, importing: OpenFile, tokens: int, rules: ExcerptRules
) -> tuple[Excerpt, ...]:
    """Return signatures of what an open document imports from other files of the workspace.

    Functions and types come in the order of the imports, then the public members of these types.
    """
    found, members = list[Signature](), list[Signature]()
    for wanted in dict.fromkeys(_imported(importing)):
        for file, definition in index.definitions(wanted.name):
            if (
                file == importing.path
                or not rules.is_shown(file)
                or not is_from(file, wanted)
                or not is_whole(definition)
            ):
                continue
            owners = dict(with_owners(index.outline(file) or Outline()))
            if owners.get(definition):
                continue
            why = f"{wanted.name} is imported"
            found.append(Signature(file, definition, None, why))
            if definition.kind in TYPES:
                public = (each for each in owners if is_whole(each) and _is_public(each.name))
                members += (Signature(file, each, definition, why) for each in public if owners[each] == definition)
        if len(found) >= MOST_NAMES:
            break
    return excerpts_of([*found, *members], "imports", tokens, rules)


def _imported(file: OpenFile) -> Iterator[ImportedName]:
    """Yield what a file imports: names that it lists, and names that it takes from modules."""
    for each in file.outline.imports:
        above, parts, names = read_import(each, file.path)
        if names:
            for name in names:
                yield ImportedName(name, parts, above)
                for attribute in _attributes(file.text, name):  # the name may be a module's
                    yield ImportedName(attribute, (*parts, name), above)
        elif parts:
            for attribute in _attributes(file.text, ".".join(parts)):
                yield ImportedName(attribute, parts, above)


def _attributes(text: str, name: str) -> list[str]:
    """Return what a text takes from a name by a dot or, in Rust, by two colons."""
    return list(dict.fromkeys(re.findall(rf"(?<![\w.]){re.escape(name)}(?:\.|::)([^\W\d]\w*)", text)))


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"
