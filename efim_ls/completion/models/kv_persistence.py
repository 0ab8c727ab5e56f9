"""Connects arenas to the block store: saves their keys and values as blocks, and fills them from these.

Everything here runs on the engine thread, unless a docstring says otherwise.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from efim_ls.paths import cache_folder, document_tag
from efim_ls.settings import Settings
from kv_store.atomic_files import make_folder, replace_file
from kv_store.block import BLOCK_TOKENS
from kv_store.open import DISK, MEMORY, SHARED, OpenedStore, StoreOptions, open_store
from kv_store.store import REMEMBERED_DOCUMENTS, ComputedBlocks, Store
from kv_store.tier import Origin, Reach
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvFormat
from model_runtime.kv.sequence import Quality
from model_runtime.kv.storage import ComputedExcerpt, HeldFrame
from model_runtime.sequence_key import SequenceKey, ids_of

MIB = 1 << 20

logger = logging.getLogger(__name__)


def open_for(kv: KvFormat, settings: Settings, model: str, held_mib: int) -> OpenedStore:
    """Open the configured store with `held_mib` of memory; raises ModelError if that is not there."""
    exact = Form.BF16 if kv.bf16 else Form.RAW
    codec = KvCodec(kv.layout, BLOCK_TOKENS, kv.rotations, exact)
    try:
        return open_store(kv.fingerprint, codec, model, _options(settings, exact, held_mib), logger.warning)
    except MemoryError:
        wanted = f"memory_mib leaves {held_mib} MiB to places that were dropped"
        raise ModelError(f"{wanted}, more than this system can allocate: lower memory_mib") from None


class _Committed(NamedTuple):
    """Which text of a document a commit has, and the blocks of it that were saved."""

    version: bytes
    names: frozenset[bytes]


class KvPersistence:
    """The engine's storage: a store's blocks. Saves rows of arenas to memory and disk, and restores them."""

    least = BLOCK_TOKENS  # fewer tokens are computed faster than they are fetched

    def __init__(self, store: Store) -> None:
        """Own the store, which `close` closes."""
        self._store = store
        self._committed: OrderedDict[int, _Committed] = OrderedDict()  # by document, the last saved at the end

    def fill(self, arena: Arena, key: SequenceKey, cancel: Cancel, row_seconds: float | None) -> int:
        """Fill an arena with the stored rows of a key's tokens, replacing other rows; return how many were added.

        Once `cancel()` is true, it ends within one read. It waits no longer than computing would take, if it is
        known how many seconds a token takes then.
        """
        held = arena.kept(key)
        block = first = held // BLOCK_TOKENS
        worth = None if row_seconds is None else row_seconds * BLOCK_TOKENS
        for planes, exact in self._store.read(self._names(key), first, cancel, arena.excerpt_rows, worth):
            start, end = max(held, block * BLOCK_TOKENS), (block + 1) * BLOCK_TOKENS
            if arena.length != start:
                arena.truncate(start)
            arena.copy_in(key.ids[start:end], [plane[:, :, start - end :] for plane in planes], _quality(exact))
            block += 1
            if cancel():
                break
        return max(0, arena.truncate(arena.length) - held) if block > first else 0

    def filled(self, key: SequenceKey, computed: int) -> int:
        """Return how many of the key's tokens an arena that has `computed` of them would hold after `fill`."""
        if len(key.ids) - computed < self.least:
            return computed
        first = computed // BLOCK_TOKENS
        return max(computed, (first + self._store.lookup(self._names(key)[first:])) * BLOCK_TOKENS)

    def fill_excerpt(self, arena: Arena, ids: Ids, cancel: Cancel) -> int:
        """Append the stored rows of an excerpt to an arena that holds a prefix of it; return the tokens added."""
        held = arena.length
        block = held // BLOCK_TOKENS
        for planes, exact in self._store.read(self._store.names_alone(ids), block, cancel):
            start, end = arena.length, min(len(ids), (block + 1) * BLOCK_TOKENS)
            skipped = start - block * BLOCK_TOKENS
            lacking = [plane[:, :, skipped : skipped + end - start] for plane in planes]
            arena.copy_in(ids[start:end], lacking, _quality(exact))
            block += 1
        return arena.length - held

    def filled_excerpt(self, ids: Ids) -> int:
        """Count the tokens of an excerpt that are stored."""
        return min(len(ids), self._store.lookup(self._store.names_alone(ids)) * BLOCK_TOKENS)

    def save(self, document: str, frames: Sequence[HeldFrame], cancel: Cancel) -> bool:
        """Save the computed rows of a document's frames and excerpts; return false if stopped.

        Blocks computed from a private document are kept in memory only, and removed from other tiers: the user may
        have made the document private after it was saved.
        """
        tag = document_tag(document)
        chains, committed = dict[bytes, None](), set[bytes]()
        for frame in reversed(frames):
            names = self._names(frame.key)
            chains |= dict.fromkeys(names)
            committed.update(names[: frame.committed.tokens // BLOCK_TOKENS])
            if not self._save_excerpts(frame, chains, cancel):
                return False
            if not self._save_arena(document, frame, names, cancel):
                return False
        self._store.pin(tag, list(chains))
        if frames and (version := frames[-1].committed.version):
            self._retire(tag, _Committed(version, frozenset(committed)))
        if any(document in frame.private for frame in frames):
            self._store.withdraw(Origin(tag, _reach(private=True)))
        return True

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of the store's memory."""
        self._store.share_memory(parts)

    def stats(self) -> list[dict[str, object]]:
        """Return what each tier holds and its counters; on any thread."""
        return [asdict(each) for each in self._store.stats()]

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. On any thread."""
        return self._store.flush(seconds)

    def close(self, seconds: float) -> None:
        """Write the queue for up to `seconds`, and close all files."""
        self._store.close(seconds)

    def _retire(self, document: int, saved: _Committed) -> None:
        """Retire the blocks of a document that the last commit has replaced since they were saved."""
        before = self._committed.pop(document, saved)
        if before.version == saved.version:
            saved = saved._replace(names=saved.names | before.names)
        elif replaced := before.names - saved.names:
            self._store.retire(list(replaced))
        self._committed[document] = saved
        if len(self._committed) > REMEMBERED_DOCUMENTS:
            self._committed.popitem(last=False)

    def _names(self, key: SequenceKey) -> list[bytes]:
        return self._store.names(key.ids, key.apart.salt, key.apart.before_excerpts)

    def _save_excerpts(self, frame: HeldFrame, chains: dict[bytes, None], cancel: Cancel) -> bool:
        """Save a frame's excerpts, each as a part of the document that it is from; note the names in `chains`."""
        for text, uri, made in zip(frame.key.apart.texts, frame.origins, frame.computed, strict=True):
            names = self._store.names_alone(ids_of(text))
            chains |= dict.fromkeys(names)
            origin = Origin(document_tag(uri), _reach(uri in frame.private, uri in frame.committed.excerpts))
            if made and not self._store.save(origin, _alone(made, names), cancel):
                return False
        return True

    def _save_arena(self, document: str, frame: HeldFrame, names: Sequence[bytes], cancel: Cancel) -> bool:
        """Save a frame's blocks; a block goes no further than the most private text it depends on."""
        if frame.arena is None:
            return True
        computed, tag = _computed(frame, names, frame.arena), document_tag(document)
        private = document in frame.private
        saw = not frame.private.isdisjoint(frame.origins)
        unseen = frame.key.apart.before_excerpts if saw else len(frame.key.ids)
        parts = (
            (_reach(private, committed=True), frame.committed.tokens // BLOCK_TOKENS),
            (_reach(private), unseen // BLOCK_TOKENS),
            (_reach(private=True), len(names)),
        )
        return all(
            self._store.save(Origin(tag, reach), replace(computed, names=computed.names[:end]), cancel)
            for reach, end in parts
        )


def _reach(private: bool, committed: bool = False) -> Reach:
    """Return how far blocks may go: to other machines only if a commit has the text that they are of."""
    if private:
        return Reach.PROCESS
    return Reach.NETWORK if committed else Reach.DISK


def _quality(exact: bool) -> Quality:
    return Quality.EXACT if exact else Quality.LOSSY


def _computed(frame: HeldFrame, names: Sequence[bytes], arena: Arena) -> ComputedBlocks:
    saved = arena.saved(BLOCK_TOKENS)

    def rows(block: int) -> Any:
        end = (block + 1) * BLOCK_TOKENS
        read = arena.read(block * BLOCK_TOKENS, end)
        return read if saved is None or end in saved else (*read[:-1], read[-1][:, :, :0])

    held = arena.common(frame.key)
    whole = arena.rows.first_below(Quality.LOSSY, held) // BLOCK_TOKENS  # borrowed rows are never stored
    exact = arena.rows.first_below(Quality.EXACT) // BLOCK_TOKENS
    return ComputedBlocks(names[:whole], rows, exact, len(frame.key.ids), arena.excerpt_rows)


def _alone(made: ComputedExcerpt, names: Sequence[bytes]) -> ComputedBlocks:
    def rows(block: int) -> Any:
        start = block * BLOCK_TOKENS
        lacking = max(0, start + BLOCK_TOKENS - made.tokens)
        parts = [plane[:, :, start : start + BLOCK_TOKENS] for plane in made.numbers]
        return [np.pad(part, ((0, 0), (0, 0), (0, lacking), (0, 0))) for part in parts] if lacking else parts

    return ComputedBlocks(names, rows, len(names) if made.quality is Quality.EXACT else 0, made.tokens)


def is_int8(settings: Settings) -> bool:
    """Return whether keys and values are approximated on disk."""
    return "int8_on_disk" in settings.approximations


def _options(settings: Settings, exact: Form, held_mib: int) -> StoreOptions:
    form = Form.INT8 if is_int8(settings) else exact
    levels: dict[str, dict[str, object]] = {MEMORY: {"bytes": held_mib * MIB}}
    if settings.persist:
        levels[DISK] = {"bytes": settings.disk_mib * MIB, "form": form}
    if settings.shared_tier.url:
        levels[SHARED] = {**asdict(settings.shared_tier), "form": form}
    return StoreOptions(levels, cache_folder(settings.cache_folder) if settings.persist else None)


class CacheFile:
    """A text in the cache folder, kept between runs; every method raises OSError."""

    def __init__(self, path: Path) -> None:
        """Name the file; it need not exist yet."""
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> str:
        """Return the file's text."""
        return self._path.read_text(encoding="utf-8")

    def write(self, text: str) -> None:
        """Replace the file as a whole, readable by its owner only."""
        make_folder(self._path.parent)
        replace_file(self._path, text.encode())
