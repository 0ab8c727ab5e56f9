"""The preamble: the workspace's most used signatures, the same for all of its files."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from math import sqrt
from typing import Protocol

from efim_ls.text.outline import Definition, Outline
from efim_ls.workspace.excerpts.signatures import (
    DefinitionSource,
    ExcerptRules,
    Signature,
    excerpts_of,
    is_whole,
    with_owners,
)
from model_runtime.shelves.excerpts.excerpts import Excerpt

RANKED = frozenset({"class", "enum", "function", "interface", "macro", "method", "struct", "type"})
NAMES_A_STEP = 100  # whose references are counted at once, in some milliseconds
MOST_RANKED = 400  # names, whose definitions are looked at: far more than fit
# The priors of aider's map of a repository (aider/repomap.py): telling names count tenfold, others a tenth.
TELLING, DULL = 10.0, 0.1
LONG_NAME, MANY_PLACES = 8, 5
PARTED = re.compile(r"[^_]_+[^_]|[a-z0-9][A-Z]")  # words in snake or camel case


class RankedSource(DefinitionSource, Protocol):
    """An index that knows in how many files a name stands."""

    def names(self, after: str, most: int, /) -> Mapping[str, int]:
        """Return the first defined names after one, in order, each with the number of its definitions."""
        ...

    def references(self, names: Sequence[str], /) -> Mapping[str, int]:
        """Return in how many files each name stands."""
        ...


def signature_steps(
    index: RankedSource, tokens: int, rules: ExcerptRules
) -> Generator[None, None, tuple[Excerpt, ...]]:
    """Choose the preamble in steps of milliseconds; the same index gives the same signatures."""
    scored, last = list[tuple[float, str, int]](), ""
    while found := index.names(last, NAMES_A_STEP):
        last = max(found)
        references = index.references(list(found))
        for each, places in found.items():
            others = references.get(each, 0) - places
            if others > 0:
                scored.append((-weight(each, places) * sqrt(others), each, others))
        yield
    ranked, owners = list[Signature](), dict[str, dict[Definition, Definition | None]]()
    for number, (_, each, others) in enumerate(sorted(scored)[:MOST_RANKED]):
        for path, definition in index.definitions(each):
            if definition.kind not in RANKED or not is_whole(definition) or not rules.is_shown(path):
                continue
            if path not in owners:
                owners[path] = dict(with_owners(index.outline(path) or Outline()))
            owner = owners[path].get(definition)
            if owner is None or is_whole(owner):
                why = f"{each} is named in {others} other file{'s' * (others != 1)}"
                ranked.append(Signature(path, definition, owner, why))
        if number % NAMES_A_STEP == 0:
            yield
    return excerpts_of(ranked, "signatures", tokens, rules)


def weight(name: str, places: int) -> float:
    """Return how telling a name is, by the number of its definitions."""
    telling = len(name) >= LONG_NAME and PARTED.search(name)
    return (
        (TELLING if telling else 1.0)
        * (DULL if name.startswith("_") else 1.0)
        * (DULL if places > MANY_PLACES else 1.0)
    )
