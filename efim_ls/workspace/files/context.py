"""What prompts may show of an index's files: nothing, unless an option chooses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

from model_runtime.prompt.context import NO_CONTEXT, PromptContext

TextOf = Callable[[str], str | None]  # the present text of a file by its real path, None if it may not be shown


class RecentEdit(NamedTuple):
    """Where another open document was edited last: its real path, its text and the line, from 0."""

    file: str
    text: str
    line: int


class RetrievalPlace(NamedTuple):
    """A place that similar code is looked up for: a document by its real path, its text and an offset in it.

    `edits` are the last ones in other open documents, the oldest first.
    """

    path: str
    text: str
    cursor: int
    edits: tuple[RecentEdit, ...] = ()


class ClientContext:
    """What prompts of one client may show. Used on the index's thread, unless a docstring says otherwise.

    Without a chosen option it `shows` nothing. If it `looks_up` places, it shows other text once one was looked up.
    """

    shows = looks_up = False

    def at(self, path: str, cursor: int) -> PromptContext:
        """Return the text of other files that a prompt at an offset of a document may show; on any thread."""
        return NO_CONTEXT

    @property
    def excluded_files(self) -> frozenset[str]:
        """Files that no prompt may show any more; on any thread."""
        return frozenset()

    def open(self, path: str, language: str, text: str) -> None:
        """Take an open document's text in place of its file's."""

    def close_document(self, path: str) -> None:
        """Take a document's file again."""

    def look_up(self, place: RetrievalPlace, text_of: TextOf) -> None:
        """Choose what to show near a place; `text_of` reads a file that is not open."""


class FilesContext:
    """What prompts of all clients of an index may show. Used on the index's thread."""

    def join(self, on_change: Callable[[], None]) -> ClientContext:
        """Return a client's part; `on_change` is called after each change."""
        return ClientContext()

    def leave(self, client: ClientContext) -> None:
        """Forget a client."""

    def renew(self, rebuilt: bool = False) -> Generator[None]:
        """Choose anew what has become old, in steps of milliseconds; all of it if the index was rebuilt."""
        yield from ()

    def exclude(self, files: Collection[str]) -> None:
        """Show nothing of these files any more."""

    def readmit(self, file: str) -> None:
        """Let a file be shown again that the rules allow once more."""
