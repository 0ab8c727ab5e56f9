"""The definitions: signatures of what one file imports from the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from efim_ls.text.outline import Import, Outline
from efim_ls.workspace.excerpts.signatures import (
    TYPES,
    DefinitionSource,
    ExcerptRules,
    Signature,
    excerpts_of,
    is_whole,
    with_owners,
)
from model_runtime.prompt.excerpts import Excerpt

PACKAGE_FILES = frozenset({"__init__", "index", "lib", "main", "mod"})  # stand for the folder that they are in
WORD = re.compile(r"\w+")
MOST_NAMES = 200  # imported ones that are looked up


class OpenFile(NamedTuple):
    """An open document by its real path, with its text and its outline."""

    path: str
    text: str
    outline: Outline


class ImportedName(NamedTuple):
    """A name, the folders and the file that it comes from as far as the import says, and the folder they are in.

    `above` is None if the import does not begin at the importing file's own folder.
    """

    name: str
    parts: tuple[str, ...]
    above: str | None = None


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
                or not _is_from(file, wanted)
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
        above, parts, names = _read(each, file.path)
        if names:
            for name in names:
                yield ImportedName(name, parts, above)
                for attribute in _attributes(file.text, name):  # the name may be a module's
                    yield ImportedName(attribute, (*parts, name), above)
        elif parts:
            for attribute in _attributes(file.text, ".".join(parts)):
                yield ImportedName(attribute, parts, above)


def _read(each: Import, path: str) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Return the folder that an import begins in if it says so, the parts of its module, and the names it lists."""
    module, names = each.module, tuple(name for name in each.names if name != "*")
    folder, levels = PurePath(path).parent, 0
    if module.startswith(".") and "/" not in module:  # Python
        levels = len(module) - len(module.lstrip("."))
        parts = tuple(filter(None, module.split(".")))
    elif module.startswith("."):  # JavaScript and TypeScript
        steps = module.split("/")
        levels = 1 + steps.count("..")
        parts = tuple(PurePath(step).stem if step == steps[-1] else step for step in steps if step not in (".", ".."))
    elif "::" in module:  # Rust
        outer, _, inner = module.partition("{")
        words = [word for word in WORD.findall(outer) if word not in ("crate", "self", "super")]
        names = tuple(WORD.findall(inner)) or tuple(words[-1:])
        parts = tuple(words if inner else words[:-1])
    elif "/" in module:  # Go, and what a build tool resolves: only the last step is a folder for sure
        parts = (PurePath(module).name,)
    else:
        parts = tuple(module.split("."))
    if not levels:
        return None, parts, names
    return str(folder.joinpath(*[".."] * (levels - 1))), parts, names


def _attributes(text: str, name: str) -> list[str]:
    """Return what a text takes from a name by a dot or, in Rust, by two colons."""
    return list(dict.fromkeys(re.findall(rf"(?<![\w.]){re.escape(name)}(?:\.|::)([^\W\d]\w*)", text)))


def _is_from(file: str, wanted: ImportedName) -> bool:
    """Return whether a file is the one that an import names, or one in the folder that it names."""
    place = PurePath(file)
    parts = place.parts[:-1] if place.stem in PACKAGE_FILES else (*place.parts[:-1], place.stem)
    if wanted.above is not None:
        here = (*_resolved(wanted.above), *wanted.parts)
        return parts[: len(here)] == here
    size = len(wanted.parts)
    return any(parts[at : at + size] == wanted.parts for at in range(len(parts) - size, -1, -1)) if size else True


def _resolved(folder: str) -> tuple[str, ...]:
    found = list[str]()
    for part in PurePath(folder).parts:
        if part == "..":
            found = found[:-1]
        else:
            found.append(part)
    return tuple(found)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"
