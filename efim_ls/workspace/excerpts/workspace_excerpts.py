"""The excerpts of one workspace, chosen on the index's thread and read as immutable snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from efim_ls.text.outline import outline
from efim_ls.workspace.excerpts.chooser import ExcerptChooser, ExcerptSource
from efim_ls.workspace.excerpts.signatures import OpenFile
from efim_ls.workspace.files.context import ClientContext, FilesContext, RetrievalPlace, TextOf
from model_runtime.prompt.context import ContextBudget
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget, Excerpts

DAY = 24 * 60 * 60.0  # seconds for which a preamble stays: a new one makes all prompts be computed again
NEARBY = 2_000  # characters from the place for which a chunk was looked up, within which it may still help


class ExcerptSnapshot(NamedTuple):
    """The excerpts for prompts: the preamble, each document's imports, and passages retrieved for a place in it.

    Nothing is from `excluded_files`, which the rules came to exclude.
    """

    signatures: tuple[Excerpt, ...] = ()
    imports: Mapping[str, tuple[Excerpt, ...]] = MappingProxyType({})
    similar: Mapping[str, tuple[int, tuple[Excerpt, ...]]] = MappingProxyType({})
    excluded_files: frozenset[str] = frozenset()


class WorkspaceExcerpts(FilesContext):
    """What prompts of all clients of an index may show, chosen on the index's thread."""

    def __init__(self, chooser: ExcerptChooser, clock: Callable[[], float] = monotonic) -> None:
        """Start without any; `clock` tells seconds."""
        self.chooser = chooser
        self.common = ExcerptSnapshot()  # without a client's own
        self._clients: list[ClientExcerpts] = []
        self._clock, self._chosen_at = clock, -inf

    def join(self, on_change: Callable[[], None]) -> ClientExcerpts:
        """Return a client's own excerpts; `on_change` is called after each change."""
        client = ClientExcerpts(self, on_change)
        self._clients.append(client)
        return client

    def leave(self, client: ClientContext) -> None:
        """Forget a client."""
        self._clients = [each for each in self._clients if each is not client]

    def renew(self, rebuilt: bool = False) -> Generator[None]:
        """Choose the preamble anew if the index was rebuilt or a day has passed, then what open documents import."""
        now = self._clock()
        if rebuilt or now - self._chosen_at > DAY:
            signatures = yield from self.chooser.signatures()
            self._chosen_at = now
            self._publish(self.common._replace(signatures=signatures))
        if rebuilt:
            for client in tuple(self._clients):
                yield from client.renew()

    def exclude(self, files: Collection[str]) -> None:
        """Take the text of files out of all excerpts, and out of prompts that show it."""
        if files:
            self._publish(self.common._replace(excluded_files=self.common.excluded_files | set(files)))

    def readmit(self, file: str) -> None:
        """Let a file be shown again that the rules allow once more."""
        if file in self.common.excluded_files:
            self._publish(self.common._replace(excluded_files=self.common.excluded_files - {file}))

    def _publish(self, common: ExcerptSnapshot) -> None:
        self.common = common._replace(signatures=_without(common.signatures, common.excluded_files))
        for client in self._clients:
            client.adopt(self.common)


class ClientExcerpts(ClientContext):
    """The excerpts of one client. Used on the index's thread, except `at` and `excluded_files`."""

    shows = True

    def __init__(self, shared: WorkspaceExcerpts, on_change: Callable[[], None]) -> None:
        """Start with the excerpts common to all clients; `on_change` is called after each change."""
        self._chooser, self._on_change = shared.chooser, on_change
        self.looks_up = shared.chooser.looks_up
        self._snapshot = shared.common  # replaced whole
        self._opened: dict[str, OpenFile] = {}  # by path

    def at(self, path: str, cursor: int) -> Excerpts:
        """Return the text of other files that a prompt at an offset of a document may show; on any thread."""
        snapshot = self._snapshot
        at, similar = snapshot.similar.get(path, (0, ()))
        return self._chooser.empty(path)._replace(
            signatures=snapshot.signatures,
            imports=snapshot.imports.get(path, ()),
            similar=similar if abs(cursor - at) <= NEARBY else (),
        )

    @property
    def excluded_files(self) -> frozenset[str]:
        """Files that no prompt may show any more; on any thread."""
        return self._snapshot.excluded_files

    def adopt(self, common: ExcerptSnapshot) -> None:
        """Replace the excerpts common to all clients."""
        signatures, excluded = common.signatures, common.excluded_files
        self._publish(self._snapshot._replace(signatures=signatures, excluded_files=excluded))

    def renew(self) -> Generator[None]:
        """Choose anew what each open document imports."""
        for file in tuple(self._opened.values()):
            self._define(file)
            yield

    def open(self, path: str, language: str, text: str) -> None:
        """Choose what an open document imports; its text stands for its file from now on."""
        self._opened[path] = file = OpenFile(path, text, outline(text, language))
        self._define(file)

    def close_document(self, path: str) -> None:
        """Forget a document."""
        self._opened.pop(path, None)
        imports = {name: each for name, each in self._snapshot.imports.items() if name != path}
        similar = {name: each for name, each in self._snapshot.similar.items() if name != path}
        self._publish(self._snapshot._replace(imports=imports, similar=similar))

    def look_up(self, place: RetrievalPlace, text_of: TextOf) -> None:
        """Choose the volatile excerpts for a place; `text_of` reads a file that is not open."""
        opened = {edit.file: edit.text for edit in place.edits}
        opened |= {path: file.text for path, file in self._opened.items() if path not in opened}

        def current(file: str) -> str | None:
            return opened[file] if file in opened else text_of(file)

        found = self._chooser.similar(place.path, place.text, place.cursor, place.edits, current)
        if found:
            similar = {**self._snapshot.similar, place.path: (place.cursor, found)}
            self._publish(self._snapshot._replace(similar=similar))

    def _define(self, file: OpenFile) -> None:
        found = self._chooser.imports(file, {each.path: each.outline for each in self._opened.values()})
        if found != self._snapshot.imports.get(file.path):
            self._publish(self._snapshot._replace(imports={**self._snapshot.imports, file.path: found}))

    def _publish(self, snapshot: ExcerptSnapshot) -> None:
        """Replace the snapshot by one without withdrawn excerpts."""
        before, gone = self._snapshot, snapshot.excluded_files
        self._snapshot = snapshot._replace(
            signatures=_without(snapshot.signatures, gone),
            imports={path: _without(each, gone) for path, each in snapshot.imports.items()},
            similar={path: (at, _without(each, gone)) for path, (at, each) in snapshot.similar.items()},
        )
        if self._snapshot != before:
            self._on_change()


def _without(excerpts: Sequence[Excerpt], files: frozenset[str]) -> tuple[Excerpt, ...]:
    return tuple(each for each in excerpts if each.file not in files)


def files_context(
    index: ExcerptSource,
    folders: Sequence[str],
    tokenizer: Tokenizer,
    budget: ContextBudget,
    is_shown: Callable[[str], bool],
) -> FilesContext:
    """Return what prompts with room for a `budget` may show of an index's files."""
    if not any(budget):
        return FilesContext()
    return WorkspaceExcerpts(ExcerptChooser(index, folders, tokenizer, ExcerptBudget(*budget), is_shown))
