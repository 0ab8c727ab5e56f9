"""Chooses excerpts from an index and open documents; a pure function of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol

from efim_ls.text.outline import Outline
from efim_ls.workspace.excerpts.imports import OpenFile, choose_imports
from efim_ls.workspace.excerpts.ranked import RankedSource, signature_steps
from efim_ls.workspace.excerpts.signatures import ExcerptRules, OpenDefinitions, relative_name
from efim_ls.workspace.excerpts.similar import PassageSource, choose_similar
from efim_ls.workspace.files.context import RecentEdit, TextOf
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget, Excerpts

MARKERS = 3  # most tokens of an excerpt in a prompt in addition to its path and its text


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


def finished(steps: Generator[None, None, tuple[Excerpt, ...]]) -> tuple[Excerpt, ...]:
    """Take all steps at once, and return the choice."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
