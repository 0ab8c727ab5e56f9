"""Held-out lines to type, drawn evenly over packages and their files, and the other files that are open."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation.places.cursors import line_at

LONGEST_TYPED = 200  # characters of a line
MOST_OPEN_CHARACTERS = 200_000  # of all other open files, as in the server's session

T = TypeVar("T")


@dataclass(frozen=True)
class TypedLine:
    r"""A line of a document to type from `start`, its indentation's end, to `end`, its last character's.

    Lines of the document end in \n, which stands at `line_end`; `row` counts from 0. Several lines that are typed one
    after the other are one of these: it ends with the last of them.
    """

    document: CodeDocument
    row: int
    start: int
    end: int
    line_end: int

    @property
    def cursors(self) -> list[int]:
        """Where the cursor stands before each key: a new line takes the next line's indentation along."""
        text = self.document.text
        return [at for at in range(self.start, self.end) if text[at] not in " \t" or self.typed_at(at).strip()]

    def typed_at(self, cursor: int) -> str:
        """Return the cursor's line up to the cursor, with its indentation."""
        text = self.document.text
        return text[text.rfind("\n", 0, cursor) + 1 : cursor]

    def text_at(self, cursor: int) -> str:
        """Return the document's text while the line is typed up to the cursor; the lines below stay."""
        return self.document.text[:cursor] + self.document.text[self.line_end :]

    def after(self, cursor: int) -> str:
        """Return what stands in the finished file from the cursor on, without the line's trailing blanks."""
        return self.document.text[cursor : self.end] + self.document.text[self.line_end :]


def whole_text(document: CodeDocument) -> TypedLine:
    """Return a whole document as one line to type, from its first character to its last."""
    size = len(document.text.rstrip())
    return TypedLine(document, 0, 0, size, len(document.text))


def choose_lines(documents: Sequence[CodeDocument], count: int) -> list[TypedLine]:
    """Choose up to `count` lines that are not blank; determined by the documents.

    Packages take turns, and so do the files of each. Fewer lines are the first of more.
    """
    rng = random.Random(0)
    packages = [_lines_in_turn(files, rng) for files in shuffled_packages(documents, rng)]
    return [line for line, _ in zip(in_turn(packages), range(count), strict=False)]


def nearest_open(line: TypedLine, documents: Sequence[CodeDocument], count: int) -> tuple[CodeDocument, ...]:
    """Return the `count` files nearest to the line's own, of its package and language, the nearest last.

    Files in the same folder are nearest, then files fewer folders away, then neighbours in the list of files.
    """
    mine = line.document.path
    files = [each for each in documents if each.kin == line.document.kin]
    files.sort(key=lambda each: each.path)
    own = next(index for index, each in enumerate(files) if each.path == mine)

    def distance(index: int) -> tuple[int, int, int]:
        return _folders_between(mine, files[index].path), abs(index - own), index

    nearest, room = list[CodeDocument](), MOST_OPEN_CHARACTERS
    for index in sorted(range(len(files)), key=distance):
        text = files[index].text
        if index != own and text and len(text) <= room and len(nearest) < count:
            nearest.append(files[index])
            room -= len(text)
    return tuple(reversed(nearest))


def with_plain_line_ends(document: CodeDocument) -> CodeDocument:
    r"""Return the document with lines that end in \n."""
    return CodeDocument(document.path, document.text.replace("\r\n", "\n").replace("\r", "\n"))


def _lines_in_turn(files: Sequence[CodeDocument], rng: random.Random) -> Iterator[TypedLine]:
    rows = [_rows(each, rng) for each in files]
    return in_turn([_lines(each, found) for each, found in zip(files, rows, strict=True)])


def _rows(document: CodeDocument, rng: random.Random) -> list[int]:
    lines = document.text.split("\n")
    rows = [row for row, line in enumerate(lines) if line.strip() and len(line) <= LONGEST_TYPED]
    rng.shuffle(rows)
    return rows


def _lines(document: CodeDocument, rows: Sequence[int]) -> Iterator[TypedLine]:
    for row in rows:
        line, at = line_at(document.text, row)
        start, end = at + len(line) - len(line.lstrip()), at + len(line.rstrip())
        yield TypedLine(document, row, start, end, at + len(line))


def shuffled_packages(documents: Sequence[CodeDocument], rng: random.Random) -> list[list[CodeDocument]]:
    """Return the documents of each package, in a random order that does not depend on the order given."""
    packages: dict[str, list[CodeDocument]] = {}
    shuffled = sorted(documents, key=lambda each: each.path)
    rng.shuffle(shuffled)
    for document in shuffled:
        packages.setdefault(package_of(document), []).append(document)
    return list(packages.values())


def in_turn(sources: Sequence[Iterator[T]]) -> Iterator[T]:
    """Yield one of each source in turn until all have ended."""
    left = list(sources)
    while left:
        ended = list[Iterator[T]]()
        for source in left:
            if (each := next(source, None)) is None:
                ended.append(source)
            else:
                yield each
        left = [source for source in left if source not in ended]


def _folders_between(one: str, other: str) -> int:
    """Return how many folders up and down lead from one file to the other."""
    ours, theirs = PurePosixPath(one).parent.parts, PurePosixPath(other).parent.parts
    shared = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    common = min(len(ours), len(theirs)) if shared is None else shared
    return len(ours) + len(theirs) - 2 * common
