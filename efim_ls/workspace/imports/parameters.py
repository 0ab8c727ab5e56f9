"""Finds the keywords that a call may have: the parameters of the functions and classes of a name in a workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath
from textwrap import dedent

from efim_ls.languages.table import family_of, language_of
from efim_ls.text.outline import TYPES, Outline, outline, with_owners
from efim_ls.workspace.files.counts import nearest
from efim_ls.workspace.imports.paths import IndexedFiles, ReferringFile

MOST_DEFINING = 32  # files whose definitions of a name are read, the nearest ones, in some 0.1 ms each
ANNOTATED = re.compile(r"\w+\s*:")
MOST_CODE = 8_000  # characters of a definition in an open text, in some 2 ms
CALLABLE = frozenset({"function", "method"})
CREATES = "__init__"
OWNERS = frozenset({"self", "cls"})
# A parameter that can be passed as a keyword; its default or the next one follows.
DECLARED = re.compile(r"\s*([^\W\d]\w*)\s*[:=,)]")
# Brackets and commas, and strings, in which these mean nothing.
PARTS = re.compile(r"""[][(){},]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")


def find_parameters(files: IndexedFiles, calling: ReferringFile, name: str) -> tuple[str, ...]:
    """Return the parameters of the functions and classes of a name: in the calling text, then the nearest files.

    Nobody knows which one of them is meant.
    """
    found = dict[str, None]()
    for code in _defining(calling.text, name):
        found |= dict.fromkeys(parameters_in(outline(code, calling.language), name))
    family, folder = family_of(calling.language), str(PurePath(calling.path).parent)
    paths = {each.path for each in files.source.definitions(name)} - {calling.path}
    for path in islice(nearest(paths, folder), MOST_DEFINING):
        if family_of(language_of(path)) == family and files.is_shown(path):
            found |= dict.fromkeys(parameters_in(files.source.outline(path) or Outline(), name))
    return tuple(found)


def _defining(text: str, name: str) -> Iterator[str]:
    """Yield the first code of each function or class of a name; to parse the whole text would take long."""
    for each in re.finditer(rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{name}\b", text, re.MULTILINE):
        yield dedent(text[each.start() : each.start() + MOST_CODE])


def parameters_in(defined: Outline, name: str) -> list[str]:
    """Return the parameters of the functions and classes of a name in one file.

    A class takes the parameters of its `__init__`, or without one the names that are annotated right below its head.
    """
    found, created, fields, is_head = list[str](), list[str](), list[str](), False
    for each, owner in with_owners(defined):
        is_head = (each.name == name and each.kind in TYPES) or (
            is_head and ANNOTATED.match(each.signature) is not None
        )
        if is_head and each.name != name:
            fields.append(each.name)
        elif each.name == name and each.kind in CALLABLE:
            found += _declared(each.signature)
        elif owner and owner.name == name and each.name == CREATES:
            created += _declared(each.signature)
    return found + (created or fields)


def _declared(signature: str) -> list[str]:
    """Return the keywords that the first brackets of a signature declare; it may be cut off at its end."""
    found, depth, begun = list[str](), 0, 0
    for part in PARTS.finditer(signature):
        if depth == 1 and part[0] in ",)":
            if signature[begun : part.start()].strip() == "/":  # what stands before it takes no keyword
                found.clear()
            elif named := DECLARED.match(signature, begun):
                found.append(named[1])
        depth += (part[0] in "([{") - (part[0] in ")]}")
        if depth == 0:
            break
        begun = part.end() if depth == 1 and part[0] in "(," else begun
    return [each for each in found if each not in OWNERS]
