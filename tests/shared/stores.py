"""Stores of colleagues over one shared place; `python -m tests.shared.stores URL KEY_FILE` saves a chain in one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kv_store.block import BLOCK_TOKENS, Name, tag
from kv_store.open import SHARED, OpenedStore, StoreOptions, open_store
from kv_store.store import ComputedBlocks, Store
from kv_store.tier import Origin, Reach
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout
from tests.waiting import HANG

LAYOUT = KvLayout.keys_and_values(2, 1, 32)
CODEC = KvCodec(LAYOUT, BLOCK_TOKENS, None)
FINGERPRINT = b"a model of tests"
DOCUMENT = tag("file:///home/someone/secret-project/plan.py")
WORTH = HANG  # seconds that a block takes to compute, so that a busy machine is waited for
BLOCK_BYTES = CODEC.size(Form.RAW)


def colleague(
    url: str, key_file: Path, said: list[str] | None = None, patience: float = HANG, **options: object
) -> OpenedStore:
    shared = {"url": url, "key_file": str(key_file), "patience_ms": 1e3 * patience, "form": Form.RAW, **options}
    report = print if said is None else said.append
    return open_store(FINGERPRINT, CODEC, "model", StoreOptions({SHARED: shared}, None), report)


def names_of(store: Store, chain: int, length: int) -> list[Name]:
    return store.names(np.arange(length * BLOCK_TOKENS, dtype=np.int32) + 100_000 * chain)


def rows_of(name: Name) -> Sequence[np.ndarray]:
    random = np.random.default_rng(list(name))
    return [random.random(plane.shape(BLOCK_TOKENS), np.float32) for plane in LAYOUT.planes]


def save(store: Store, chain: int, length: int) -> None:
    names = names_of(store, chain, length)
    computed = ComputedBlocks(names, lambda i: rows_of(names[i]), length, length * BLOCK_TOKENS)
    assert store.save(Origin(DOCUMENT, Reach.NETWORK), computed, lambda: False)
    assert store.flush(HANG)


def read(store: Store, chain: int, length: int) -> int:
    """Read blocks and return how many; they must be what was saved."""
    names, found = names_of(store, chain, length), 0
    for found, (rows, exact) in enumerate(store.read(names, 0, lambda: False, worth=WORTH), 1):
        assert exact and all(map(np.array_equal, rows, rows_of(names[found - 1])))
    return found


if __name__ == "__main__":
    opened = colleague(sys.argv[1], Path(sys.argv[2]))
    save(opened.store, 1, 20)
    assert opened.store.close(HANG)
