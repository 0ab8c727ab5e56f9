"""What `efim-ls cache` reads and changes in a block file, whether or not a server is using it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kv_store.disk.block_file import BlockFile
from kv_store.disk.index import Index, read_blocks
from kv_store.disk.record import damaged, parse


class Usage(NamedTuple):
    """A document's blocks, their bytes, and when one of them was last used, in Unix seconds."""

    blocks: int
    bytes: int
    used: int


class Verification(NamedTuple):
    """The number of whole blocks, and of damaged blocks or records."""

    whole: int
    damaged: int


def usage_by_document(block_file: BlockFile) -> dict[int, Usage]:
    """Return what each document, by its tag, takes of the file, the last used one first; raises OSError."""
    records, found = block_file.records(), dict[int, Usage]()
    sound = np.flatnonzero(~damaged(records, range(len(records))))
    for record in parse(records[sound]):
        if record.parts and record.part == 0:
            blocks, size, used = found.get(record.document, (0, 0, 0))
            found[record.document] = Usage(blocks + 1, size + record.size, max(used, record.used))
    return dict(sorted(found.items(), key=lambda each: each[1].used, reverse=True))


def verify(block_file: BlockFile, remove: bool) -> Verification:
    """Check every block and, if `remove`, erase the damaged ones and their descendants; servers wait meanwhile.

    Raises OSError.
    """
    with block_file.locked():
        index = Index(block_file)
        _, bad_records = index.orphans()
        blocks = [block for name in index.lru.names for block in index.locate([name])]
        blocks.sort(key=lambda block: block.slots)
        slot_bytes = block_file.header.slot_bytes
        bad = [block.name for block, data in read_blocks(block_file, blocks) if not block.matches(data, slot_bytes)]
        if remove:
            for name in bad:
                index.remove(name)
            block_file.erase(index.orphans()[0])
    return Verification(len(blocks) - len(bad), len(bad) + bad_records)


def remove_document(block_file: BlockFile, document: int) -> None:
    """Erase and wipe the blocks that a document brought, and their descendants; raises OSError."""
    with block_file.locked():
        index = Index(block_file)
        index.remove_document(document)
        block_file.erase(index.orphans()[0])
