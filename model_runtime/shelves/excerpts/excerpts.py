"""Excerpts: pieces of other files' text for a prompt, in three places by how often they change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from model_runtime.prompt.context import PromptContext

ExcerptPlace = Literal["signatures", "imports", "similar"]
PLACES: tuple[ExcerptPlace, ...] = ("signatures", "imports", "similar")


class Excerpt(NamedTuple):
    """A piece of another file's text.

    `path` is what the model reads, relative to the workspace's folder; `file` is the real path. `lines` are the lines
    of the file, from 0, that the text shows. `why` tells people the reason it was chosen.
    """

    place: ExcerptPlace
    path: str
    file: str
    lines: tuple[int, ...]
    text: str
    why: str

    @property
    def first_line(self) -> int:
        """The first line of the file that is shown, from 0."""
        return self.lines[0]


class Excerpts(NamedTuple):
    """What a prompt shows of other files; `similar` changes most often and stands nearest to the cursor.

    `repository` is the workspace folder's name, and `path` the document's own path in it.
    """

    signatures: tuple[Excerpt, ...] = ()
    imports: tuple[Excerpt, ...] = ()
    similar: tuple[Excerpt, ...] = ()
    repository: str = ""
    path: str = ""

    @property
    def all(self) -> tuple[Excerpt, ...]:
        """All excerpts, in their order."""
        return self.signatures + self.imports + self.similar

    @property
    def steady(self) -> Excerpts:
        """The excerpts that change seldom."""
        return self._replace(similar=())

    def without(self, files: Collection[str]) -> Excerpts:
        """Return the excerpts that are from none of these files, by their real paths."""
        if not files or all(each.file not in files for each in self.all):
            return self

        def kept(part: tuple[Excerpt, ...]) -> tuple[Excerpt, ...]:
            return tuple(each for each in part if each.file not in files)

        return self._replace(signatures=kept(self.signatures), imports=kept(self.imports), similar=kept(self.similar))

    def renewed(self, offered: PromptContext) -> PromptContext:
        """Return the offer; similar code stays until other is offered.

        To take it away would cost as much as to change it.
        """
        others = offered if isinstance(offered, Excerpts) else NO_EXCERPTS
        return others._replace(similar=others.similar or self.similar)


NO_EXCERPTS = Excerpts()


class ExcerptBudget(NamedTuple):
    """The most tokens of each part, with the markers of its excerpts; 0 for a part that is switched off."""

    signatures: int = 0
    imports: int = 0
    similar: int = 0


# The volatile part is short because every new frame computes it again.
FULL_EXCERPTS = ExcerptBudget(signatures=512, imports=384, similar=256)


def budget_of(rows: int, shows_similar: bool) -> ExcerptBudget:
    """Return the budgets for a model's template; where the model has `rows` for excerpts, they share these."""
    if rows:
        share = min(1.0, rows / sum(FULL_EXCERPTS))
        return ExcerptBudget(*(int(tokens * share) for tokens in FULL_EXCERPTS))
    return FULL_EXCERPTS if shows_similar else FULL_EXCERPTS._replace(similar=0)
