"""A repository for recorded sessions, which have none: excerpts cut from a folder's files or the recording's text.

Which excerpts there are, and when each changes, depends on the recording alone, so that all prompt layouts show the
same texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

from efim_lab.gate.replay.trace import Trace, final_text
from efim_ls.languages.table import language_of
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget, ExcerptPlace, Excerpts

CHUNK_LINES = 12  # of an excerpt
QUERY_LINES, QUERY_CHARACTERS = 12, 2_000  # above the cursor, that a similar chunk is looked for by
TOP = 4_000  # characters of a document that may hold its imports
MOST_CHUNKS = 400  # of a folder; more make a replay slow and no different
WORD = re.compile(r"[^\W\d]\w{2,}")
IMPORT = re.compile(r"^\s*(?:use|import|from|#include|require)\b.*$", re.MULTILINE)


class SimulatedRepository:
    """Chunks of text in the role of other files, and what a prompt shows of them at a place."""

    def __init__(self, files: Iterable[tuple[str, str]], tokenizer: Tokenizer, budget: ExcerptBudget) -> None:
        """Cut files, given by path and text, into chunks of whole lines."""
        self._tokenizer, self._budget = tokenizer, budget
        self._chunks = [chunk for path, text in files for chunk in _chunks(path, text)][:MOST_CHUNKS]
        self._words = [frozenset(WORD.findall(each.text)) for each in self._chunks]
        self._sizes = [len(tokenizer.encode_file(f"# {each.path}\n{each.text}")) + 3 for each in self._chunks]
        self._found: tuple[str, tuple[Excerpt, ...]] = "", ()

    def stable(self, text: str) -> Excerpts:
        """Return the preamble, which never changes, and definitions, which change with the text's imports."""
        count = len(self._chunks)
        shift = crc32("\n".join(IMPORT.findall(text, 0, TOP)).encode("utf-8", "replace")) % count if count else 0
        signatures = self._taken(range(count), "signatures", self._budget.signatures)
        behind = [(shift + at) % count for at in range(count)]
        imports = self._taken(behind, "imports", self._budget.imports)
        return Excerpts(signatures, imports, (), "repository", "document")

    def similar(self, text: str, cursor: int) -> tuple[Excerpt, ...]:
        """Return the chunk with the words most like the words above the cursor, cut to the budget."""
        above = "\n".join(text[max(0, cursor - QUERY_CHARACTERS) : cursor].split("\n")[-QUERY_LINES:])
        if above != self._found[0]:
            wanted = frozenset(WORD.findall(above))
            fits = [at for at in range(len(self._chunks)) if self._sizes[at] <= self._budget.similar]
            best = max(fits, key=lambda at: _likeness(self._words[at], wanted), default=None)
            taken = [] if best is None else [best]
            self._found = above, self._taken(taken, "similar", self._budget.similar)
        return self._found[1]

    def _taken(self, order: Iterable[int], place: ExcerptPlace, tokens: int) -> tuple[Excerpt, ...]:
        taken, spent = list[Excerpt](), 0
        for at in order:
            if spent + self._sizes[at] > tokens:
                break
            taken.append(self._chunks[at]._replace(place=place))
            spent += self._sizes[at]
        return tuple(taken)


def files_of(folder: Path | None, recorded: Trace) -> Iterator[tuple[str, str]]:
    """Yield the source files of a folder or, without one, the recording's last text, as path and text."""
    if folder is None:
        yield "other", final_text(recorded)
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file() and language_of(path.name):
            yield path.relative_to(folder).as_posix(), path.read_text("utf-8", "replace")


def _chunks(path: str, text: str) -> Iterator[Excerpt]:
    lines = text.splitlines()
    for at in range(0, len(lines), CHUNK_LINES):
        shown = lines[at : at + CHUNK_LINES]
        numbers = tuple(range(at, at + len(shown)))
        yield Excerpt("similar", path, path, numbers, "\n".join(shown) + "\n", "simulated")


def _likeness(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0
