"""Chooses excerpts from an index and open documents; a pure function of both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from typing import NamedTuple, Protocol

from efim_ls.text.outline import Definition, Outline, with_owners
from efim_ls.workspace.database.queries import Passage
from efim_ls.workspace.excerpts.signatures import (
    DefinitionSource,
    ExcerptRules,
    Name,
    OpenDefinitions,
    OpenFile,
    Signature,
    choose_imports,
    excerpts_of,
    is_whole,
    relative_name,
)
from efim_ls.workspace.files.context import RecentEdit, TextOf
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget, Excerpts

QUERY_LINES = 12  # above the cursor, whose words are looked for
CHUNK_LINES, CHUNK_STEP = 12, 4  # lines of a chunk, and between the beginnings of two
EDIT_LINES = 3  # above and below an edit
PASSAGES = 8  # that the index finds and that are compared closer
LEAST_WORD = 3  # characters; shorter words are everywhere
LEAST_SIMILAR = 0.1  # Jaccard's index of the words; less is chance
WORD = re.compile(r"[^\W\d]\w*")
MARKERS = 3  # most tokens of an excerpt in a prompt in addition to its path and its text
RANKED = frozenset({"class", "enum", "function", "interface", "macro", "method", "struct", "type"})
NAMES_A_STEP = 100  # whose references are counted at once, in some milliseconds
MOST_RANKED = 400  # names, whose definitions are looked at: far more than fit
# The priors of aider's map of a repository (aider/repomap.py): telling names count tenfold, others a tenth.
TELLING, DULL = 10.0, 0.1
LONG_NAME, MANY_PLACES = 8, 5
PARTED = re.compile(r"[^_]_+[^_]|[a-z0-9][A-Z]")  # words in snake or camel case


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
    """Choose the preamble, the workspace's most used signatures, in steps of milliseconds.

    It is the same for all files, and for the same index.
    """
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


class ExcerptSource(RankedSource, PassageSource, Protocol):
    """An index: definitions, references and passages of a workspace's files."""


class ExcerptChooser:
    """Chooses excerpts for a workspace's documents; whatever does not fit its budget is left out whole.

    Of files for which `is_shown` is false, no text is chosen.
    """

    def __init__(
        self,
        index: ExcerptSource,
        folders: Sequence[str],
        tokenizer: Tokenizer,
        budget: ExcerptBudget,
        is_shown: Callable[[str], bool],
    ) -> None:
        """Name files as in the innermost of the workspace's folders, which are real paths."""
        self._index, self._tokenizer, self._budget = index, tokenizer, budget
        self._folders = tuple(sorted(folders))
        self._rules = ExcerptRules(relative_name(folders), self.size, is_shown)

    @property
    def looks_up(self) -> bool:
        """Whether there is room for similar code."""
        return self._budget.similar > 0

    def empty(self, path: str) -> Excerpts:
        """Return no excerpts, for the document at a real path."""
        repository = os.path.basename(self._folders[0]) if self._folders else ""
        return Excerpts(repository=repository, path=self._rules.name(path))

    def signatures(self) -> Generator[None, None, tuple[Excerpt, ...]]:
        """Choose the workspace's most used signatures, in steps of milliseconds."""
        if not self._budget.signatures:
            return ()
        return (yield from signature_steps(self._index, self._budget.signatures, self._rules))

    def imports(self, file: OpenFile, opened: Mapping[str, Outline]) -> tuple[Excerpt, ...]:
        """Choose signatures of what a document imports; `opened` are the outlines of all open documents."""
        if not self._budget.imports:
            return ()
        return choose_imports(OpenDefinitions(self._index, opened), file, self._budget.imports, self._rules)

    def similar(
        self, path: str, text: str, cursor: int, edits: Sequence[RecentEdit], text_of: TextOf
    ) -> tuple[Excerpt, ...]:
        """Choose the last edits elsewhere, the oldest first in `edits`, and the chunk most similar to this place."""
        if not self._budget.similar:
            return ()
        shown = [each for each in edits if self._rules.is_shown(each.file)]
        budget = self._budget.similar
        return choose_similar(self._index, path, text, cursor, shown, self._text_of(text_of), budget, self._rules)

    def size(self, excerpt: Excerpt) -> int:
        """Return the most tokens of an excerpt in a prompt."""
        return len(self._tokenizer.encode_file(f"# {excerpt.path}\n{excerpt.text}")) + MARKERS

    def _text_of(self, text_of: TextOf) -> TextOf:
        return lambda file: text_of(file) if self._rules.is_shown(file) else None
