"""Cursors in held-out repositories, with excerpts of the repository's other files that resemble their windows."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.places.cursors import Context, line_at, shuffled_lines, window_at

EXCERPTS = 5  # of a prompt; one more is at hand, to replace one of them
LONGEST_EXCERPT = 640  # characters, about 180 tokens
SHORTEST_EXCERPT = 80
EARLIER = 12  # lines: how far a cursor jumps
WORDS = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass(frozen=True)
class Excerpt:
    """A definition of another file of the repository, cut off where it is too long; `path` is the file's."""

    path: str
    text: str


@dataclass(frozen=True)
class ReusePlace:
    """A cursor, the true `rest` of its line, and the excerpts for its prompt, the most similar last.

    `spare` is an excerpt that is not in the prompt yet. `file` names the document; `row` is the cursor's line in its
    `text`.
    """

    file: str
    text: str
    row: int
    context: Context
    rest: str
    excerpts: tuple[Excerpt, ...]
    spare: Excerpt


def choose_reuse_places(documents: Sequence[CodeDocument], count: int) -> list[ReusePlace]:
    """Choose cursors, as many in each repository as in any other, determined by the documents.

    Raises WorkError if no repository has enough files.
    """
    packages: dict[str, list[CodeDocument]] = {}
    for document in documents:
        packages.setdefault(package_of(document), []).append(document)
    found = [_in_package(each, -(-count // len(packages))) for _, each in sorted(packages.items())]
    places = [place for each in zip(*found, strict=False) for place in each] if found else []
    rest = [place for each in found for place in each[len(places) // max(1, len(found)) :]]
    if not (places or rest):
        raise WorkError("the data has no repository of several files: name a folder of Python packages")
    return [*places, *rest][:count]


def other_definitions(documents: Sequence[CodeDocument]) -> list[Excerpt]:
    """Return every top-level definition of the documents, cut off at LONGEST_EXCERPT."""
    return [Excerpt(each.path, text) for each in documents for text in definitions(each.text)]


def definitions(text: str) -> list[str]:
    """Return the top-level functions and classes of a text; none if it is no Python."""
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        return []
    lines, found = text.split("\n"), list[str]()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
            found.append(_cut("\n".join(lines[start : node.end_lineno]) + "\n"))
    return [each for each in found if len(each) >= SHORTEST_EXCERPT]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EXCERPT else text[: text.rfind("\n", 0, LONGEST_EXCERPT) + 1]


def _in_package(documents: Sequence[CodeDocument], count: int) -> list[ReusePlace]:
    rng, places = random.Random(0), list[ReusePlace]()
    excerpts = other_definitions(documents)
    words = [frozenset(WORDS.findall(each.text)) for each in excerpts]
    spread = Counter(word for each in words for word in each)
    for document, row in shuffled_lines(documents, rng):
        if len(places) == count:
            break
        line, anchor = line_at(document.text, row)
        indent = len(line) - len(line.lstrip())
        cursor = anchor + rng.randint(indent, max(indent, len(line.rstrip()) - 1))
        context = window_at(document.text, cursor, anchor + len(line), 1)
        if row < 2 * EARLIER or len(context.head) < 400:
            continue
        chosen = _similar(document.path, context, excerpts, words, spread)
        if len(chosen) > EXCERPTS:
            rest = document.text[cursor : anchor + len(line)]
            spare, *others = chosen
            places.append(ReusePlace(document.path, document.text, row, context, rest, tuple(others), spare))
    return places


def _similar(
    path: str,
    context: Context,
    excerpts: Sequence[Excerpt],
    words: Sequence[frozenset[str]],
    spread: Counter[str],
) -> list[Excerpt]:
    """Return the excerpts of other files that share most words with a window, the most similar last."""
    wanted = frozenset(WORDS.findall(context.head + context.typed + context.tail))

    def score(number: int) -> float:
        return sum(1 / (1 + log(spread[word])) for word in sorted(words[number] & wanted))

    others = [number for number, each in enumerate(excerpts) if each.path != path]
    best = sorted(others, key=lambda number: (-score(number), number))[: EXCERPTS + 1]
    return [excerpts[number] for number in reversed(best)]
