"""What a server shows of a repository's other files, chosen by its own index over a copy of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.package_counts import PackageCounts
from efim_lab.studies.repository.places import RepositoryPlace
from efim_ls.access.rules import Rules
from efim_ls.memory_shares import LEAST_MEMORY
from efim_ls.settings import DEFAULTS
from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.index import Scope, WorkspaceIndex, open_index
from efim_ls.workspace.overlay import Overlay
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from model_runtime.shelves.excerpts.excerpts import NO_EXCERPTS, ExcerptBudget, Excerpts


class RepositoryExcerpts:
    """Chooses excerpts for places in repositories; each repository is a separate workspace."""

    def __init__(
        self, documents: Sequence[CodeDocument], tokenizer: Tokenizer, budget: ExcerptBudget, folder: Path
    ) -> None:
        """Take the documents of all repositories, the most tokens of each part, and an empty folder to copy to."""
        self._budget, self._tokenizer, self._folder = budget, tokenizer, folder.resolve()
        self._indexes: dict[str, tuple[WorkspaceIndex, Overlay]] = {}
        self._repositories: dict[str, list[CodeDocument]] = {}
        for document in documents:
            self._repositories.setdefault(package_of(document), []).append(document)

    def beside(self, place: RepositoryPlace, retrieved: bool) -> Excerpts:
        """Return what prompts at a place may show, of files other than its own; similar code only if `retrieved`."""
        name = package_of(place.document)
        if name not in self._indexes:
            self._indexes[name] = self._built(name, self._repositories[name])
        (index, mine), path = self._indexes[name], str(self._path(place.document))
        _exhaust(index.open(mine, path, "python", place.text))
        if retrieved:
            _exhaust(index.retrieve(mine, RetrievalPlace(path, place.text, place.cursor)))
        found = mine.context.at(path, place.cursor)
        assert isinstance(found, Excerpts)  # the budget is not empty
        _exhaust(index.close_document(mine, path))
        return found.without([path])  # its own file was indexed with the target in it

    def close(self) -> None:
        """Close all indexes."""
        for index, _ in self._indexes.values():
            index.close()

    def _built(self, name: str, documents: Sequence[CodeDocument]) -> tuple[WorkspaceIndex, Overlay]:
        for document in documents:
            path = self._path(document)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document.text, encoding="utf-8", newline="\n")
        # In memory, and with few counts, since others are read.
        settings, top = replace(DEFAULTS, persist=False, memory_mib=LEAST_MEMORY), self._folder / name
        scope = Scope.of(
            settings, Rules(settings, [top.as_uri()]), [top], LanguageTokenizers(self._tokenizer), self._budget
        )
        index, mine = WorkspaceIndex(scope, open_index(scope, _ignore)), Overlay()
        _exhaust(chain(index.join(mine), index.build()))
        return index, mine

    def _path(self, document: CodeDocument) -> Path:
        """Return the place of a document's copy: its repository's folder lies in a workspace of the same name."""
        return self._folder / package_of(document) / document.path


class OtherFiles:
    """What arms may know of the other files of a place's repository: counts, and excerpts within a budget."""

    def __init__(self, documents: Sequence[CodeDocument], tokenizer: Tokenizer, folder: Path) -> None:
        """Take the documents of all repositories, and an empty folder for copies of them."""
        self.memories = PackageCounts(tokenizer, documents)
        self._documents, self._tokenizer, self._folder = documents, tokenizer, folder
        self._excerpts: dict[ExcerptBudget, RepositoryExcerpts] = {}

    def excerpts(self, place: RepositoryPlace, budget: ExcerptBudget, retrieved: bool) -> Excerpts:
        """Return what prompts at a place may show within a budget; similar code only if `retrieved`."""
        if not any(budget):
            return NO_EXCERPTS
        if budget not in self._excerpts:
            self._excerpts[budget] = RepositoryExcerpts(self._documents, self._tokenizer, budget, self._folder)
        return self._excerpts[budget].beside(place, retrieved)

    def close(self) -> None:
        """Close all indexes."""
        for each in self._excerpts.values():
            each.close()


def _exhaust(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _ignore(_: object) -> None:
    """Report nothing."""
