"""The volatile excerpts: the last edits in other open documents, and the code most similar to where work is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from efim_ls.workspace.database.queries import Passage
from efim_ls.workspace.excerpts.signatures import ExcerptRules, Name
from efim_ls.workspace.files.context import RecentEdit, TextOf
from model_runtime.shelves.excerpts.excerpts import Excerpt

QUERY_LINES = 12  # above the cursor, whose words are looked for
CHUNK_LINES, CHUNK_STEP = 12, 4  # lines of a chunk, and between the beginnings of two
EDIT_LINES = 3  # above and below an edit
PASSAGES = 8  # that the index finds and that are compared closer
LEAST_WORD = 3  # characters; shorter words are everywhere
LEAST_SIMILAR = 0.1  # Jaccard's index of the words; less is chance
WORD = re.compile(r"[^\W\d]\w*")


class PassageSource(Protocol):
    """An index of passages by their words."""

    def similar(self, words: Sequence[str], most: int, /) -> Sequence[Passage]:
        """Return at most `most` passages with the rarest of these words, the most similar first."""
        ...


class _Chunk(NamedTuple):
    file: str
    first: int
    lines: tuple[str, ...]
    words: frozenset[str]


def choose_similar(
    index: PassageSource,
    path: str,
    text: str,
    cursor: int,
    edits: Sequence[RecentEdit],
    text_of: TextOf,
    tokens: int,
    rules: ExcerptRules,
) -> tuple[Excerpt, ...]:
    """Return the last edits elsewhere, within half of the budget, then the most similar chunk if it fits.

    `edits` are the oldest first. No more than one chunk is shown, and nothing of the document itself.
    """
    chosen, spent = list[Excerpt](), 0
    for edit in reversed([each for each in edits if each.file != path]):
        excerpt = _of_edit(edit, rules.name)
        if excerpt and spent + rules.size(excerpt) <= tokens // 2:
            chosen.insert(0, excerpt)
            spent += rules.size(excerpt)
    for chunk, likeness in _most_similar(index, path, text, cursor, [each.file for each in edits], text_of):
        lines = tuple(range(chunk.first, chunk.first + len(chunk.lines)))
        why = f"similar to the lines above the cursor ({likeness:.0%} of the words)"
        excerpt = Excerpt("similar", rules.name(chunk.file), chunk.file, lines, "\n".join(chunk.lines) + "\n", why)
        overlaps = any(each.file == chunk.file and not set(lines).isdisjoint(each.lines) for each in chosen)
        if spent + rules.size(excerpt) <= tokens and not overlaps:
            return (*chosen, excerpt)
    return tuple(chosen)


def _of_edit(edit: RecentEdit, name: Name) -> Excerpt | None:
    lines = edit.text.splitlines()
    first, last = max(0, edit.line - EDIT_LINES), min(len(lines), edit.line + EDIT_LINES + 1)
    shown = lines[first:last]
    if not any(each.strip() for each in shown):
        return None
    text = "\n".join(shown) + "\n"
    return Excerpt("similar", name(edit.file), edit.file, tuple(range(first, last)), text, "edited last")


def _most_similar(
    index: PassageSource, path: str, text: str, cursor: int, opened: Iterable[str], text_of: TextOf
) -> list[tuple[_Chunk, float]]:
    """Return chunks of other files and how similar each is, the most similar first."""
    above = text[:cursor].splitlines()[-QUERY_LINES:]
    wanted = frozenset(_words("\n".join(above)))
    if not wanted:
        return []
    spans: list[tuple[str, int, int | None]] = [(file, 0, None) for file in opened]
    spans += [
        (each.path, max(0, each.first_line - CHUNK_STEP), each.last_line + CHUNK_STEP)
        for each in index.similar(sorted(wanted), PASSAGES)
        if (each.path, 0, None) not in spans
    ]
    scored = list[tuple[_Chunk, float]]()
    for file, first, last in spans:
        if file == path or (other := text_of(file)) is None:
            continue
        for chunk in _chunks(file, other.splitlines()[first:last], first):
            likeness = len(chunk.words & wanted) / len(chunk.words | wanted)
            if likeness >= LEAST_SIMILAR:
                scored.append((chunk, likeness))
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].file, pair[0].first))


def _chunks(file: str, lines: Sequence[str], first: int) -> Iterator[_Chunk]:
    for at in range(0, max(1, len(lines) - CHUNK_LINES + CHUNK_STEP), CHUNK_STEP):
        shown = tuple(lines[at : at + CHUNK_LINES])
        yield _Chunk(file, first + at, shown, frozenset(_words("\n".join(shown))))


def _words(text: str) -> list[str]:
    return [word for word in WORD.findall(text) if len(word) >= LEAST_WORD]
