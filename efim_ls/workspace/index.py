"""The files of a workspace: the index file that keeps them, and the memories of counts that requests read.

Nothing here starts a thread. Long work is a generator whose steps take milliseconds; between two steps of one, all
steps of another may be taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from time import monotonic
from typing import Literal, TypeVar

from efim_ls.access.rules import Rules
from efim_ls.access.secrets import may_reach_disk
from efim_ls.languages.headers import header_language
from efim_ls.languages.table import family_of
from efim_ls.memory_shares import share_out
from efim_ls.paths import cache_folder
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.workspace.database.origin import OF_INDEX, IndexOrigin, index_path
from efim_ls.workspace.database.tables import Entry
from efim_ls.workspace.excerpts.workspace_excerpts import files_context
from efim_ls.workspace.files.content import IndexedFile, Kept, content_of, digest_of
from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.files.counts import FileCounts, IndexedText, Publication, nearest
from efim_ls.workspace.files.discovery import (
    KnownFolders,
    SourceFile,
    is_entered,
    read_source,
    readable,
    source_files,
)
from efim_ls.workspace.imports.paths import IndexedFiles
from efim_ls.workspace.index_file import IndexFile
from efim_ls.workspace.overlay import MIB, Overlay
from model_runtime.ids import Ids
from model_runtime.prompt.context import ContextBudget
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

T = TypeVar("T")

Steps = Generator[None]
Question = Callable[[IndexedFiles], Generator[None, None, T]]

BYTES_A_TOKEN = 6
FIRST_TOKENS = 300_000  # are published before more are read: enough for the nearest folders, and sorted in 0.1 s
FILES_A_STEP = 50  # whose ids are read back at once
ENTRIES_A_STEP = 1_000  # read back from the index file, in some 5 ms
TOKENS_A_WRITE = 100_000  # written to the index file in one transaction
TELL = 0.2  # seconds between reports of progress
# Settings that matter here in addition to the index file's.
OF_COUNTS = ("memory_mib", "cache_folder", "next_edit")


@dataclass(frozen=True)
class Scope:
    """The inputs of the index: folders by their real paths, settings and rules in force, the models' tokenizers."""

    folders: tuple[Path, ...]
    settings: Settings
    rules: Rules = field(compare=False)  # made of the same settings and folders
    tokenizers: LanguageTokenizers = field(compare=False)
    default: tuple[bytes, bool]  # the digest of the default tokenizer, and whether all languages have it
    context: ContextBudget = ()  # of other files' text, for which prompts have room

    @classmethod
    def of(
        cls,
        settings: Settings,
        rules: Rules,
        folders: Iterable[Path],
        tokenizers: LanguageTokenizers,
        context: ContextBudget = (),
    ) -> Scope:
        """Return the scope of a session; it changes only with settings that matter here."""
        mine = replace(DEFAULTS, **{name: getattr(settings, name) for name in (*OF_INDEX, *OF_COUNTS)})
        default = tokenizers.default.digest, tokenizers.is_one
        return cls(tuple(sorted(folders)), mine, rules, tokenizers, default, context)


class WorkspaceIndex:
    """The index of one scope, with the overlays of its clients. Used on one thread."""

    def __init__(self, scope: Scope, file: IndexFile) -> None:
        """Take over the scope's index file."""
        self._scope, self._told_at, self._is_built = scope, 0.0, False
        self._file = file
        self._generation = self._file.generation
        self._has_gone = True  # whether the index file may keep something of files that are gone
        self._files: dict[str, IndexedText] = {}  # by path, as they were last read
        self._skipped: dict[str, tuple[int, int]] = {}  # by path: stamps of files that were no sources when read
        self._overlays: list[Overlay] = []
        self._ids: dict[bytes, Ids] = {}  # by digest: of open files, or files read and not yet published
        self._unwritten: dict[str, IndexedFile] = {}  # by path: read, and not yet in the index file
        self._focus = ""  # the folder of the document that a client opened last
        self._counts = FileCounts(share_out(scope.settings.memory_mib).counts * MIB // BYTES_A_TOKEN)
        folders = [str(folder) for folder in scope.folders]
        self._context = files_context(file, folders, scope.tokenizers.default, scope.context, self._is_shown)

    def join(self, overlay: Overlay) -> Steps:
        """Publish for a client from now on."""
        self._overlays.append(overlay)
        overlay.context = self._context.join(overlay.on_context)
        overlay.publish(self._counts.snapshot, self._ids, self._counts.free)
        overlay.tell(self._state, 0, 0)
        yield

    def leave(self, overlay: Overlay) -> Steps:
        """Forget a client and its documents."""
        self._overlays.remove(overlay)
        self._context.leave(overlay.context)
        if overlay.opened:
            yield from self._publish()

    def build(self) -> Steps:
        """Publish what the index file holds, then bring it up to date with the disk."""
        yield from self.recall()
        yield from self._walk()
        yield from self._publish()
        yield from self._write_again()
        self._wipe()
        self._is_built = True
        yield from self._context.renew(rebuilt=True)
        self._tell()

    def recall(self) -> Steps:
        """Publish what the index file holds of files that have not changed since."""
        entries, last = dict[str, Entry](), ""
        while page := self._file.entries(last, ENTRIES_A_STEP):
            entries.update(page)
            last = max(page)
            yield
        self._skipped = dict(self._file.skipped())
        gone, unpublished, least, known = list[str](), 0, FIRST_TOKENS, KnownFolders()
        for count, path in enumerate(nearest(entries, self._focus)):
            file, entry = self._readable(path, known), entries[path]
            if file is None or self._is_private(path):
                gone.append(path)
            elif (entry.size, entry.mtime_ns) == file[1:3]:
                if (length := self._file.token_count(entry.digest, entry.language)) is None:
                    continue
                self._files[path] = IndexedText(family_of(file.language), entry.digest, length, file[1:3])
                unpublished += length
            if count % FILES_A_STEP == 0:
                yield
            if unpublished >= least:
                yield from self._publish()
                unpublished, least = 0, 4 * least  # few publications: each sorts the new files
        self._forget(gone)
        yield from self._publish()

    def refresh(self, paths: Collection[str]) -> Steps:
        """Read again what may have changed on disk: files, or folders with all that they hold or held."""
        changed, gone, walks, known = list[SourceFile](), list[str](), False, KnownFolders()
        for path in paths:
            if file := self._readable(path, known):
                changed.append(file)
            elif path in self._files or path in self._skipped or self._is_open(path):
                gone.append(path)
            else:
                walks = walks or self._is_walked(path)
            yield
        if changed or gone or walks:  # programs change other files all the time
            yield from self._update(changed, gone, walks)

    def open(self, overlay: Overlay, path: str, language: str, text: str) -> Steps:
        """Count a client's open document in place of the file."""
        self._focus = str(PurePath(path).parent)
        if self._readable(path) is None:
            return
        source = self._source(family_of(language), text)
        ids = self._ids[source.digest]
        yield
        if overlay.opened.get(path) != source:
            overlay.opened[path], self._ids[source.digest] = source, ids  # a publication meanwhile lets go of ids
            overlay.context.open(path, language, text)
            yield from self._publish()
        if self._is_built:
            yield from self._context.renew()

    def close_document(self, overlay: Overlay, path: str) -> Steps:
        """Count a file's own text for a client again."""
        overlay.context.close_document(path)
        if overlay.opened.pop(path, None):
            file = self._readable(path)
            yield from self._update([file] if file else [], [] if file else [path])

    def retrieve(self, overlay: Overlay, place: RetrievalPlace) -> Steps:
        """Look up the code that is most similar to a place in a client's document."""
        yield
        overlay.context.look_up(place, self._text)

    def answer(self, question: Question[T], found: Callable[[T], None]) -> Steps:
        """Answer a question about the files, and pass the answer on."""
        found((yield from question(IndexedFiles(self._file, self._files, self._is_shown, self._text))))

    def close(self) -> None:
        """Close the index file."""
        self._file.close()

    def _update(self, changed: Sequence[SourceFile], gone: Sequence[str], walks: bool = False) -> Steps:
        """Read files that changed, forget those that are gone, and publish the rest.

        Renamed files are not derived again; nothing of other files that are gone stays on disk.
        """
        self._forget(gone)
        yield from self._read(changed)
        if walks:
            yield from self._walk()
        yield from self._publish()
        yield from self._write_again()
        self._wipe()

    def _readable(self, path: str, known: KnownFolders | None = None) -> SourceFile | None:
        """Return a file if it lies in one of the folders and may be read."""
        found = (readable(path, self._scope.rules, folder, known) for folder in self._scope.folders)
        return next((file for file in found if file), None)

    def _text(self, path: str) -> str | None:
        """Return the text of a file on disk if it may be read."""
        return read_source(file) if (file := self._readable(path)) else None

    def _is_walked(self, path: str) -> bool:
        """Return whether a path is or was a folder with sources, or is a list of what git ignores."""
        if os.path.basename(path) == ".gitignore" or any(is_entered(path, folder) for folder in self._scope.folders):
            return True
        below = os.path.join(path, "")
        return not os.path.lexists(path) and any(each.startswith(below) for each in self._files)

    def _is_private(self, path: str) -> bool:
        """Return whether nothing of a file may reach the disk."""
        return not may_reach_disk(Path(path).as_uri(), self._scope.settings.private_files)

    def _is_shown(self, path: str) -> bool:
        """Return whether prompts may show text of a file; their keys and values reach the disk."""
        return (path in self._files or self._is_open(path)) and not self._is_private(path)

    def _is_open(self, path: str) -> bool:
        """Return whether a client has a document open that counts in place of a file."""
        return any(path in overlay.opened for overlay in self._overlays)

    def _walk(self) -> Steps:
        """Find files that are new, changed or gone in all folders, and read them."""
        opened = {path for overlay in self._overlays for path in overlay.opened}
        before, found, changed = {*self._files, *opened, *self._skipped}, set[str](), list[SourceFile]()
        for folder in self._scope.folders:
            for count, file in enumerate(source_files(folder, self._scope.rules)):
                found.add(file.path)
                known = self._files.get(file.path)
                stamp = known.stamp if known else self._skipped.get(file.path)
                if stamp != (file.size, file.mtime_ns):
                    changed.append(file)
                if count % FILES_A_STEP == 0:
                    yield
        self._forget([path for path in before - found if self._readable(path) is None])
        order = {path: at for at, path in enumerate(nearest([file.path for file in changed], self._focus))}
        yield from self._read(sorted(changed, key=lambda file: order[file.path]))

    def _read(self, files: Sequence[SourceFile]) -> Steps:
        """Read files, write them to the index file, and publish them now and then."""
        unpublished, least = 0, FIRST_TOKENS
        for done, file in enumerate(files):
            self._tell(done, len(files))
            if not (text := read_source(file)):
                self._forget([file.path])
                if text is not None:
                    self._skip(file)
                continue
            file = file._replace(language=header_language(file.language, file.path, text))
            source = self._source(family_of(file.language), text, (file.size, file.mtime_ns))
            ids = self._ids[source.digest]
            yield
            private, content = self._is_private(file.path), None
            if private or not self._file.holds(source.digest, file.language):
                content = content_of(text, file.language, ids, self._file.keeps)
            # No step between the two: work done meanwhile takes a file that is read for a file that has its ids.
            self._unwritten[file.path] = IndexedFile(file, source.digest, content, private)
            self._files[file.path], self._ids[source.digest] = source, ids
            self._context.readmit(file.path)
            yield
            unpublished += source.tokens
            if sum(self._files[path].tokens for path in self._unwritten) >= TOKENS_A_WRITE:
                self._write()
                yield
            if unpublished >= least:
                yield from self._publish()
                unpublished, least = 0, 4 * least
        self._write()

    def _skip(self, file: SourceFile) -> None:
        """Remember that a file is no source, so that it is not read again until it changes."""
        self._skipped[file.path] = (file.size, file.mtime_ns)
        if not self._is_private(file.path):
            self._file.skip([file])

    def _write(self) -> None:
        self._file.put(list(self._unwritten.values()))
        self._unwritten.clear()

    def _write_again(self) -> Steps:
        """Read all files once more if the index file had to begin empty; the memories stay as they are."""
        if self._generation != self._file.generation:
            self._generation = self._file.generation
            self._files = {path: source._replace(stamp=(0, 0)) for path, source in self._files.items()}
            self._skipped.clear()
            yield from self._walk()
            yield from self._publish()

    def _source(self, family: str, text: str, stamp: tuple[int, int] = (0, 0)) -> IndexedText:
        """Return a text as a source, and hold its ids until they are published."""
        tokenizers = self._scope.tokenizers
        digest = digest_of(text, family if tokenizers.has_own(family) else "")
        if (ids := self._ids.get(digest)) is None:
            ids = dict(self._file.ids([digest])).get(digest)
        if ids is None:
            ids = tokenizers.of(family).encode_file(text)
        self._ids[digest] = ids
        return IndexedText(family, digest, len(ids), stamp)

    def _forget(self, paths: Sequence[str]) -> None:
        """Forget files; of those that are still there, which the rules now exclude, no trace stays on disk."""
        opened = [overlay.opened for overlay in self._overlays]
        for path in paths:
            for each in (self._files, self._skipped, self._unwritten, *opened):
                each.pop(path, None)
        excluded = [path for path in paths if os.path.lexists(path)]
        self._context.exclude(excluded)
        if gone := sorted(set(paths) - set(excluded)):
            self._file.remove(gone, for_good=False)
            self._has_gone = True
        if excluded:  # what may have to be wiped takes as long as the index is large
            self._file.remove(excluded, for_good=True)

    def _wipe(self) -> None:
        """Remove the data of files that are gone, which was kept in case they had only been renamed."""
        if self._has_gone:
            self._file.remove([], for_good=True)
            self._has_gone = False

    def _publish(self) -> Steps:
        """Make the memories hold the wanted files."""
        while missing := (planned := self._planned()).missing(self._ids):
            for start in range(0, len(missing), FILES_A_STEP):
                part = missing[start : start + FILES_A_STEP]
                self._ids.update(self._file.ids(part))
                if lost := set(part) - self._ids.keys():  # the index file was damaged: the next walk reads them
                    self._files = {path: each for path, each in self._files.items() if each.digest not in lost}
                yield
        self._counts.publish(planned, self._ids)  # no step before it: the plan may not change
        for overlay in self._overlays:
            overlay.publish(self._counts.snapshot, self._ids, self._counts.free)
        opened = (each for overlay in self._overlays for each in overlay.opened.values())
        kept = {each.digest for each in (*opened, *self._unwritten.values())}
        self._ids = {digest: ids for digest, ids in self._ids.items() if digest in kept}
        self._tell()

    def _planned(self) -> Publication:
        """Return which files fit together with the open documents of the client that has most of them."""
        opened = max((overlay.tokens for overlay in self._overlays), default=0)
        return self._counts.plan(self._files, opened, self._focus)

    @property
    def _state(self) -> Literal["building", "ready"]:
        return "ready" if self._is_built else "building"

    def _tell(self, done: int = 0, total: int = 0) -> None:
        """Report the status to all clients, and progress not too often."""
        now = monotonic()
        if done and now < self._told_at + TELL:
            return
        self._told_at = now
        for overlay in self._overlays:
            overlay.tell(self._state, done, total)


def open_index(scope: Scope, report: Callable[[str], None]) -> IndexFile:
    """Open the index file of a scope, in memory if nothing may be kept; each failure of the disk is reported once.

    It keeps passages if prompts have room for text of other files, else outlines if next edits may be imports.
    """
    folders, chosen = scope.folders, scope.settings
    path = index_path(cache_folder(chosen.cache_folder), folders) if chosen.persist else None
    origin = IndexOrigin(tuple(map(str, folders)), chosen)
    keeps: Kept = "passages" if any(scope.context) else "outlines" if chosen.next_edit else "ids"
    return IndexFile(path, origin, scope.tokenizers, report, keeps)
