"""What counts of a workspace: memories of its files, which its clients share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple

from model_runtime.counts.snapshot import EMPTY, CountedDocument, Counts
from model_runtime.ids import Ids

Digests = dict[str, bytes]  # of texts, by their files' paths


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
    """The files to publish: their digests by family and path, and the counts to begin with."""

    begun: Mapping[str, Counts]
    files: Mapping[str, Digests]

    def missing(self, ids: Mapping[bytes, Ids]) -> list[bytes]:
        """Return the digests of the texts whose token ids are needed and are not among these."""
        needed = (new(counts, self.files[family]).values() for family, counts in self.begun.items())
        return sorted({digest for digests in needed for digest in digests} - ids.keys())


class FileCounts:
    """The memories of the files of one index. Used on one thread, except `snapshot`."""

    def __init__(self, free: int) -> None:
        """Start with nothing, for at most `free` tokens, including a client's open documents."""
        self.snapshot: Mapping[str, Counts] = {}  # by family; replaced whole
        self.free = free

    def plan(self, files: Mapping[str, IndexedText], opened: int, focus: str) -> Publication:
        """Return what fits in addition to `opened` tokens: the files whose folders are nearest to `focus`.

        Files that are open are counted all the same: each client takes off its own.
        """
        free = self.free - opened
        fits = sum(file.tokens for file in files.values()) <= free
        chosen = fitting(files, files if fits else nearest(files, focus), free)
        begun = {family: self.snapshot.get(family, EMPTY) for family in {*self.snapshot, *chosen}}
        return Publication(begun, chosen)

    def publish(self, planned: Publication, ids: Mapping[bytes, Ids]) -> None:
        """Make the memories hold the planned files; `ids` has the missing ones."""
        snapshot = dict[str, Counts]()
        for family, begun in planned.begun.items():
            files = planned.files[family]
            removed = [path for path, digest in begun.paths.items() if files.get(path) != digest]
            counts = begun.with_changes(removed, documents(new(begun, files), ids))
            snapshot[family] = counts.merged() if counts.needs_merge else counts
        self.snapshot = snapshot


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


def fitting(texts: Mapping[str, IndexedText], order: Iterable[str], free: int) -> defaultdict[str, Digests]:
    """Return the digests of the first texts that fit, by family and path."""
    found = defaultdict[str, Digests](dict)
    for path in order:
        if texts[path].tokens > free:
            break
        free -= texts[path].tokens
        found[texts[path].family][path] = texts[path].digest
    return found


def new(counts: Counts, digests: Digests) -> Digests:
    """Return the texts that counts do not have."""
    held = counts.paths
    return {path: digest for path, digest in digests.items() if held.get(path) != digest}


def documents(digests: Digests, ids: Mapping[bytes, Ids]) -> list[CountedDocument]:
    """Return texts as they are counted."""
    return [CountedDocument(path, digest, ids[digest]) for path, digest in digests.items()]
