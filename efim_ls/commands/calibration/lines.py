"""Chooses lines of a user's own files and types them with a model."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from efim_ls.access.rules import Rules
from efim_ls.completion.completer import Completer
from efim_ls.completion.filters.place import Place, place_of
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.request import Reason, Request
from efim_ls.workspace.files.discovery import SourceFile, read_source, source_files
from model_runtime.cancel import NEVER

LONGEST_TYPED, LONGEST_FILE = 200, 50_000  # characters of a line, and of its file
BLOCK = 4  # lines that are typed one after the other
BLOCKS_OF_A_FILE = 3  # at most, so that a large file is not all that is typed
COMPARED = 200  # characters behind a line with which a suggestion is compared
LEAST = 0.2  # nothing that is noted depends on it
NOT_MADE: tuple[Reason, ...] = ("binary text", "line too long", "superseded")  # nothing was decoded


class Line(NamedTuple):
    r"""A line of a file to type, from `start`, its indentation's end, to `end`; the file's lines end in \n."""

    path: str
    language: str
    text: str
    start: int
    end: int

    @property
    def uri(self) -> str:
        """The URI of the file."""
        return Path(self.path).as_uri()

    @property
    def below(self) -> str:
        """The text from the line's end on."""
        end = self.text.find("\n", self.end)
        return self.text[end:] if end >= 0 else ""

    def after(self, cursor: int) -> str:
        """Return the text from a cursor on, as much of it as is compared."""
        return self.text[cursor : self.end] + self.below[:COMPARED]

    def request(self, cursor: int) -> Request:
        """Return what an editor asks while the line is typed up to a cursor and the lines below are there."""
        text = self.text[:cursor] + self.below
        return Request(self.uri, text, cursor, least=LEAST, language=self.language)


class Key(NamedTuple):
    """A key of a line: the text that follows, its place, and what the model's answer was made from."""

    after: str
    place: Place
    origin: AnswerOrigin | None


def choose_blocks(folder: Path, rules: Rules, languages: Sequence[str]) -> Iterator[list[Line]]:
    """Yield blocks of lines of the files that may be read and are in these languages, files in turn.

    They are the same each time. Of a block, each line but the first follows the line before it, as a user types.
    """
    rng = random.Random(0)
    files = [each for each in source_files(folder, rules) if each.language in languages or not languages]
    rng.shuffle(files)
    waiting = [_blocks(each, rng.random()) for each in files]
    while waiting:
        drawn = [(blocks, next(blocks, None)) for blocks in waiting]
        yield from (block for _, block in drawn if block)
        waiting = [blocks for blocks, block in drawn if block]


def type_line(completer: Completer, line: Line) -> list[Key]:
    """Type a line key by key; return the facts known before each."""
    keys = list[Key]()
    for cursor in range(line.start, line.end):
        request = line.request(cursor)
        answer = completer.complete(request, NEVER)
        origin = completer.made_from(request.uri) if answer.reason not in NOT_MADE else None
        keys.append(Key(line.after(cursor), place_of(request), origin))
    return keys


def _blocks(file: SourceFile, seed: float) -> Iterator[list[Line]]:
    text = (read_source(file) or "") if file.size <= LONGEST_FILE else ""
    lines, at = list[Line](), 0
    for row in text.split("\n"):
        if row.strip() and len(row) <= LONGEST_TYPED:
            start, end = at + len(row) - len(row.lstrip()), at + len(row.rstrip())
            lines.append(Line(file.path, file.language, text, start, end))
        at += len(row) + 1
    blocks = [lines[first : first + BLOCK] for first in range(0, len(lines), BLOCK)]
    random.Random(seed).shuffle(blocks)
    yield from blocks[:BLOCKS_OF_A_FILE]
