"""What counts of a workspace: memories of its files, which windows share, and of open documents in their place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple
from weakref import WeakValueDictionary

from model_runtime.counts.snapshot import EMPTY, CountedDocument, Counts
from model_runtime.ids import Ids

Digests = dict[str, bytes]  # of texts, by their files' paths

# What indexes of this process have published last of their files, by what they index and the family. Windows of one
# workspace go on from it, so that they hold the same arrays; what no window holds any more is gone.
_published = WeakValueDictionary[tuple[Hashable, str], Counts]()


class IndexedText(NamedTuple):
    """A text that counts: of a file as it was last read, or of an open document in its place.

    `stamp` are a file's size and time of change (ns) when it was read.
    """

    family: str
    digest: bytes
    tokens: int
    stamp: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Publication:
    """What is to be published: digests by family and path, of files and of open documents, and what to begin with."""

    begun: Mapping[str, Counts]
    files: Mapping[str, Digests]
    opened: Mapping[str, Digests]

    def missing(self, ids: Mapping[bytes, Ids]) -> list[bytes]:
        """Return the digests of the texts whose token ids are needed and are not among these."""
        needed = {
            digest for family, counts in self.begun.items() for digest in _new(counts, self.files[family]).values()
        }
        return sorted(needed - ids.keys())


class WorkspaceCounts:
    """The memories of one index. Used on one thread, except `snapshot`."""

    def __init__(self, shared: Hashable, free: int) -> None:
        """Start with nothing, for at most `free` tokens; indexes of the same `shared` scope have the same files."""
        self.snapshot: Mapping[str, Counts] = {}  # by family, with open documents; replaced whole
        self._shared, self._free = shared, free
        self._files: Mapping[str, Counts] = {}  # by family

    def has_twin(self, families: Iterable[str]) -> bool:
        """Return whether another index of the same scope has published files of one of these families."""
        published = {family: _published.get((self._shared, family)) for family in families}
        return any(each is not None and each is not self._files.get(family) for family, each in published.items())

    def plan(self, files: Mapping[str, IndexedText], opened: Mapping[str, IndexedText], focus: str) -> Publication:
        """Return what fits: open documents, then the files whose folders are nearest to `focus`.

        Files that are open are counted all the same, and taken off, so that windows differ in what is open alone.
        """
        of_opened, free = _fitting(opened, opened, self._free)
        fits = sum(file.tokens for file in files.values()) <= free
        of_files, _ = _fitting(files, files if fits else nearest(files, focus), free)
        begun = {family: self._begun(family, of_files[family]) for family in {*self.snapshot, *of_files, *of_opened}}
        return Publication(begun, of_files, of_opened)

    def publish(self, planned: Publication, ids: Mapping[bytes, Ids]) -> None:
        """Make the memories hold what was planned; `ids` has what was missing, and the open documents."""
        held, snapshot = dict[str, Counts](), dict[str, Counts]()
        every = {path for digests in planned.opened.values() for path in digests}
        for family, begun in planned.begun.items():
            files = planned.files[family]
            removed = [path for path, digest in begun.paths.items() if files.get(path) != digest]
            counts = begun.with_changes(removed, _documents(_new(begun, files), ids))
            held[family] = counts = counts.merged() if counts.needs_merge else counts
            if counts is not EMPTY:
                _published[self._shared, family] = counts
            opened = planned.opened[family]
            snapshot[family] = counts.with_changes(every - opened.keys(), _documents(_new(counts, opened), ids))
        self._files, self.snapshot = held, snapshot

    def _begun(self, family: str, files: Digests) -> Counts:
        """Return the counts of a family from which the fewest texts change; another window's rather than its own."""
        mine = self._files.get(family, EMPTY)
        others = _published.get((self._shared, family), mine)
        return others if others is mine or _distance(others, files) <= _distance(mine, files) else mine


def nearest(paths: Iterable[str], focus: str) -> list[str]:
    """Return paths in the order of their folders' distance from a folder, then by name."""
    here, distances = PurePath(focus).parts, dict[str, int]()

    def distance(path: str) -> tuple[int, str]:
        folder = path.rpartition("/")[0]
        if folder not in distances:
            parts = PurePath(folder).parts
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(here, parts, strict=False)))
            distances[folder] = len(here) + len(parts) - 2 * shared
        return distances[folder], path

    return sorted(paths, key=distance)


def _fitting(
    texts: Mapping[str, IndexedText], order: Iterable[str], free: int
) -> tuple[defaultdict[str, Digests], int]:
    """Return the digests of the first texts that fit, by family and path, and the tokens that are left."""
    found = defaultdict[str, Digests](dict)
    for path in order:
        if texts[path].tokens > free:
            return found, 0
        free -= texts[path].tokens
        found[texts[path].family][path] = texts[path].digest
    return found, free


def _new(counts: Counts, digests: Digests) -> Digests:
    """Return the texts that counts do not have."""
    held = counts.paths
    return {path: digest for path, digest in digests.items() if held.get(path) != digest}


def _distance(counts: Counts, digests: Digests) -> int:
    """Return in how many texts counts differ."""
    return len(counts.paths.items() ^ digests.items())


def _documents(digests: Digests, ids: Mapping[bytes, Ids]) -> list[CountedDocument]:
    return [CountedDocument(path, digest, ids[digest]) for path, digest in digests.items()]
