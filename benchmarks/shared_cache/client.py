"""One of many clients of a shared cache: reads and saves blocks that follow from their names, and checks each bit.

It prints a JSON line after each round, and ends with status 1 if a block is wrong or a local block is lost.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from kv_store.block import BLOCK_TOKENS, Name
from kv_store.open import MEMORY, SHARED, StoreOptions, open_store
from kv_store.store import ComputedBlocks, Store
from kv_store.tier import Origin, Reach
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.kv.codec import Floats, Form, KvCodec
from model_runtime.kv.layout import KvLayout

FILES, LONGEST = 300, 64  # of the team's repository, and blocks of the longest
MEMORY_BYTES = 1 << 24
PAUSE = 1.0  # seconds between two files
PATIENCE = 0.03
LAYOUT = KvLayout.of(read_config(EMBEDDED))
FINGERPRINT = blake2b(b"load", digest_size=32).digest()


def rows_of(name: Name) -> list[Floats]:
    """Return the rows of a block, which follow from its name."""
    random_of = np.random.default_rng(int.from_bytes(name, "little"))
    return [random_of.random(plane.shape(BLOCK_TOKENS), np.float32) for plane in LAYOUT.planes]


@dataclass
class Counts:
    """Blocks that were read from the store, saved to it, not as they should be, and no longer there at once."""

    read: int = 0
    saved: int = 0
    wrong: int = 0
    lost: int = 0


class Checker:
    """A store, and what has been seen of it."""

    def __init__(self, store: Store) -> None:
        self._store, self.counts = store, Counts()

    def visit(self, number: int, length: int) -> None:
        """Open a file: read its blocks that are there, check them, save the rest, and read it back from memory."""
        tokens = np.random.default_rng(number).integers(0, 8000, length * BLOCK_TOKENS).astype(np.int32)
        names = self._store.names(tokens)
        found = self._check(names)
        self.counts.read += found
        blocks = ComputedBlocks(names, lambda i: rows_of(names[i]), length, len(tokens))
        self._store.save(Origin(number + 1, Reach.NETWORK), blocks, NEVER)
        self.counts.saved += length - found
        self.counts.lost += length - self._check(names)

    def _check(self, names: Sequence[Name]) -> int:
        found = 0
        for rows, exact in self._store.read(names, 0, NEVER):
            expected = rows_of(names[found])
            self.counts.wrong += not exact or not all(map(np.array_equal, rows, expected))
            found += 1
        return found


def main() -> None:
    """Visit files, the first ones most often, until the process is ended."""
    url, key_file, seed = sys.argv[1:]
    codec = KvCodec(LAYOUT, BLOCK_TOKENS, None, Form.RAW)
    shared = {"url": url, "key_file": key_file, "form": Form.RAW, "patience_ms": 1e3 * PATIENCE}
    options = StoreOptions({MEMORY: {"bytes": MEMORY_BYTES}, SHARED: shared}, None)
    opened = open_store(FINGERPRINT, codec, "load", options, lambda message: print(message, file=sys.stderr))
    checker, choose = Checker(opened.store), random.Random(int(seed))
    while not (checker.counts.wrong or checker.counts.lost):
        number = min(int(choose.expovariate(8 / FILES)), FILES - 1)
        checker.visit(number, 1 + number * 7 % LONGEST)
        print(json.dumps(asdict(checker.counts) | {"mib": _mib()}), flush=True)
        time.sleep(choose.uniform(0.5, 1.5) * PAUSE)
    sys.exit(1)


def _mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
