"""The definitions: signatures of what one file imports from the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from efim_ls.text.outline import Outline
from efim_ls.workspace.excerpts.signatures import (
    TYPES,
    DefinitionSource,
    ExcerptRules,
    Signature,
    excerpts_of,
    is_whole,
    with_owners,
)
from efim_ls.workspace.imports.paths import ImportedName, is_from, read_import
from model_runtime.shelves.excerpts.excerpts import Excerpt

MOST_NAMES = 200  # imported names that are looked up


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
