"""What a command line can tell of a file of blocks, whether a server uses it or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kv_store.disk.index import Catalog
from kv_store.disk.reading import fetch
from kv_store.disk.record import damaged, parsed
from kv_store.disk.segment import Segment


class Usage(NamedTuple):
    """What a document brought: blocks, their bytes, and when one of them was used last, in Unix seconds."""

    blocks: int
    bytes: int
    used: int


class Verified(NamedTuple):
    """How many blocks are whole, and how many blocks or records are damaged."""

    whole: int
    damaged: int


def usage(segment: Segment) -> dict[int, Usage]:
    """What is there by the tag of who brought it, those used last first; raises OSError."""
    records, found = segment.records(), dict[int, Usage]()
    sound = np.flatnonzero(~damaged(records, range(len(records))))
    for record in parsed(records[sound]):
        if record.parts and record.part == 0:
            blocks, size, used = found.get(record.document, (0, 0, 0))
            found[record.document] = Usage(blocks + 1, size + record.size, max(used, record.used))
    return dict(sorted(found.items(), key=lambda each: each[1].used, reverse=True))


def verify(segment: Segment, drop: bool) -> Verified:
    """Read every block, and erase the damaged ones and what is behind them if `drop`; servers wait meanwhile.

    Raises OSError.
    """
    with segment.locked():
        catalog = Catalog(segment)
        _, bad_records = catalog.litter()
        places = [place for name in catalog.lru.names for place in catalog.places([name])]
        places.sort(key=lambda place: place.slots)
        slot_bytes = segment.geometry.slot_bytes
        bad = [place.name for place, data in fetch(segment, places) if not place.fits(data, slot_bytes)]
        if drop:
            for name in bad:
                catalog.drop(name)
            segment.erase(catalog.litter()[0])
    return Verified(len(places) - len(bad), len(bad) + bad_records)


def forget(segment: Segment, document: int) -> None:
    """Erase and wipe what a document brought, and what is behind it; raises OSError."""
    with segment.locked():
        catalog = Catalog(segment)
        catalog.forget(document)
        segment.erase(catalog.litter()[0])
