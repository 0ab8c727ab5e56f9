"""Connects arenas to the block store: KV as blocks, frames as notes on documents.

Everything here runs on the engine thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from efim_ls.access.secrets import may_reach_disk
from efim_ls.completion.document_state import DocumentState
from efim_ls.completion.planning.notes import note_of, plans_of
from efim_ls.completion.planning.planner import Frame, Plan
from efim_ls.completion.planning.window import Budget
from efim_ls.paths import cache_folder, document_tag
from efim_ls.settings import Settings
from kv_store.block import BLOCK_TOKENS
from kv_store.level import Origin
from kv_store.open import DISK, MEMORY, OpenedStore, StoreOptions, open_store
from kv_store.store import ComputedBlocks
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.isolated import NONE_ISOLATED, IsolatedExcerpts, ids_of
from model_runtime.kv.arena import Arena
from model_runtime.kv.codec import Form, KvCodec, Shape
from model_runtime.kv.excerpt_library import ComputedExcerpt
from model_runtime.kv.format import KvFormat
from model_runtime.kv.rows import Quality
from model_runtime.prompt.prompt import Prompt

MIB = 1 << 20

ArenaOf = Callable[[Frame], Arena | None]
ExcerptOf = Callable[[bytes], ComputedExcerpt | None]  # from an excerpt's token ids

logger = logging.getLogger(__name__)


class KvPersistence:
    """Saves the keys and values in arenas, and their frames, to memory and disk, and restores them."""

    least = BLOCK_TOKENS  # fewer tokens are computed faster than they are fetched

    def __init__(
        self, opened: OpenedStore, budget: Budget, settings: Settings, leave: Callable[[], bool] | None = None
    ) -> None:
        """Own the opened store, or share it: then `leave` returns whether no other client is left.

        Saved frames are restored only under the same budget.
        """
        self._store, self._opened, self._leave = opened.store, opened, leave
        self._budget, self._settings = budget, settings

    @classmethod
    def open(cls, kv: KvFormat, settings: Settings, model: str, budget: Budget, held_mib: int) -> KvPersistence:
        """Open the configured store with `held_mib` of memory; raises ModelError if that cannot be allocated."""
        exact = Form.BF16 if kv.bf16 else Form.RAW
        codec = KvCodec(Shape(kv.layers, kv.kv_heads, BLOCK_TOKENS, kv.head_dim), kv.rotations, exact)
        try:
            opened = open_store(kv.fingerprint, codec, model, _options(settings, exact, held_mib), logger.warning)
        except MemoryError:
            wanted = f"memory_mib leaves {held_mib} MiB to places that were dropped"
            raise ModelError(f"{wanted}, more than this system can allocate: lower memory_mib") from None
        return cls(opened, budget, settings)

    def for_client(self, settings: Settings, leave: Callable[[], bool]) -> KvPersistence:
        """Return the same store as another client's settings allow to use it, which calls `leave` when closed."""
        return KvPersistence(self._opened, self._budget, settings, leave)

    def fill(self, arena: Arena, ids: Ids, cancel: Cancel) -> int:
        """Fill an arena with stored keys and values of `ids`, replacing what differs; return the tokens added.

        Once `cancel()` is true, it ends within one read.
        """
        held = arena.kept(ids)
        names, block = self._names(ids, arena.excerpts), held // BLOCK_TOKENS
        for numbers, exact in self._store.read(names, block, arena.room):
            start, end = max(held, block * BLOCK_TOKENS), (block + 1) * BLOCK_TOKENS
            if arena.length != start:
                arena.truncate(start)
            arena.copy_in(ids[start:end], numbers[:, :, :, start - end :], _quality(exact))
            block += 1
            if cancel():
                break
        return max(0, block * BLOCK_TOKENS - held)

    def filled(self, ids: Ids, computed: int, excerpts: IsolatedExcerpts = NONE_ISOLATED) -> int:
        """Return how many tokens of `ids` an arena that has `computed` of them would hold after `fill`."""
        if len(ids) - computed < self.least:
            return computed
        first = computed // BLOCK_TOKENS
        return max(computed, (first + self._store.lookup(self._names(ids, excerpts)[first:])) * BLOCK_TOKENS)

    def fill_excerpt(self, arena: Arena, ids: Ids) -> int:
        """Append what is stored of an excerpt to an arena that holds a prefix of it; return the tokens added."""
        held = arena.length
        block = held // BLOCK_TOKENS
        for numbers, exact in self._store.read(self._store.names_alone(ids), block):
            start, end = arena.length, min(len(ids), (block + 1) * BLOCK_TOKENS)
            skipped = start - block * BLOCK_TOKENS
            arena.copy_in(ids[start:end], numbers[:, :, :, skipped : skipped + end - start], _quality(exact))
            block += 1
        return arena.length - held

    def filled_excerpt(self, ids: Ids) -> int:
        """Count the tokens of an excerpt that are stored."""
        return min(len(ids), self._store.lookup(self._store.names_alone(ids)) * BLOCK_TOKENS)

    def save(
        self,
        uri: str,
        document: DocumentState,
        arena_of: ArenaOf,
        cancel: Cancel,
        excerpt_of: ExcerptOf = lambda _: None,
    ) -> bool:
        """Save the frames of a document's requests and their excerpts, as far as these are computed.

        What was computed from a document that may not be on disk is kept in memory only. Return false if it was
        stopped before the end.
        """
        if not (frames := document.asked()):
            return True
        origin = Origin(document_tag(uri), self._is_private(uri))
        chains: dict[bytes, None] = {}
        for frame in reversed(frames):
            prompt, arena = frame.prompt, arena_of(frame)
            names = self._names(prompt.ids, prompt.isolated)
            chains |= dict.fromkeys(names)
            if not self._save_excerpts(prompt, chains, cancel, excerpt_of):
                return False
            if arena and not self._save_arena(origin, _computed(frame, names, arena), prompt, cancel):
                return False
        self._store.pin(origin.document, list(chains))
        before, document.saved = document.saved, [frame.plan for frame in frames]
        if not origin.private and self._opened.notes and before != document.saved:
            note = note_of(uri, document.saved, self._budget)
            self._opened.submit(partial(self._opened.notes.write, origin.document, note))
        if origin.private and not document.withdrawn:
            document.withdrawn = True
            self._withdraw(origin)
        return True

    def recall(self, uri: str) -> list[Plan]:
        """Return a document's plans as saved on disk, most recently used last."""
        if not self._opened.notes or self._is_private(uri):
            return []
        note = self._opened.notes.read(document_tag(uri))
        return plans_of(note, self._budget) if note else []

    def focus(self, uri: str) -> None:
        """Mark a document as the one being edited."""
        self._store.visit(document_tag(uri))

    def close_document(self, uri: str) -> None:
        """Mark a document as no longer being edited."""
        self._store.leave(document_tag(uri))

    def describe(self) -> dict[str, object]:
        """Return where keys and values are stored, and why."""
        folder, settings = self._opened.folder, self._settings
        if folder is not None:
            reason = f"at most {settings.disk_mib} MiB for each model, {'int8' if _is_int8(settings) else 'raw'}"
        else:
            reason = next(iter(self._opened.warnings.messages), "turned off by the setting persist")
        store = str(folder) if folder else "memory only"
        return {"store": store, "store_reason": reason, "store_approximate": self._opened.approximate}

    def stats(self) -> list[dict[str, object]]:
        """Return what each tier holds and its counters; on any thread."""
        return [asdict(each) for each in self._store.stats()]

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all is written; return whether it is. On any thread."""
        return self._store.flush(seconds)

    def close(self, seconds: float, write: bool) -> None:
        """Write what is left for up to `seconds`, or discard it unless `write`, and close files.

        A shared store stays open, and keeps what other clients may still have to write.
        """
        is_last = self._leave is None or self._leave()
        if not write and is_last:
            self._store.discard()
        if self._leave is None:
            self._store.close(seconds)

    def _names(self, ids: Ids, excerpts: IsolatedExcerpts) -> list[bytes]:
        return self._store.names(ids, excerpts.salt, excerpts.before_excerpts)

    def _save_excerpts(
        self, prompt: Prompt, chains: dict[bytes, None], cancel: Cancel, excerpt_of: ExcerptOf
    ) -> bool:
        """Save a prompt's excerpts, each as a part of the document that it is from; note the names in `chains`."""
        for text, uri in zip(prompt.isolated.texts, prompt.origins, strict=True):
            names, made = self._store.names_alone(ids_of(text)), excerpt_of(text)
            chains |= dict.fromkeys(names)
            origin = Origin(document_tag(uri), self._is_private(uri))
            if made and not self._store.save(origin, _alone(made, names), cancel):
                return False
        return True

    def _save_arena(self, origin: Origin, computed: ComputedBlocks, prompt: Prompt, cancel: Cancel) -> bool:
        """Save an arena's blocks; those that saw excerpts are private if one of these is."""
        seen = any(map(self._is_private, prompt.origins))
        if seen and not origin.private:
            unseen = replace(computed, names=computed.names[: prompt.before_excerpts // BLOCK_TOKENS])
            if not self._store.save(origin, unseen, cancel):
                return False
        return self._store.save(origin._replace(private=origin.private or seen), computed, cancel)

    def _is_private(self, uri: str) -> bool:
        return not may_reach_disk(uri, self._settings.private_files)

    def _withdraw(self, origin: Origin) -> None:
        """Remove what may not be kept of a document: the user may have made it private after it was saved."""
        self._store.withdraw(origin)
        if (notes := self._opened.notes) is not None:
            self._opened.submit(partial(notes.remove, origin.document))


def _quality(exact: bool) -> Quality:
    return Quality.EXACT if exact else Quality.LOSSY


def _computed(frame: Frame, names: Sequence[bytes], arena: Arena) -> ComputedBlocks:
    def rows(block: int) -> Any:
        return arena.copy_out(block * BLOCK_TOKENS, (block + 1) * BLOCK_TOKENS)

    held = arena.common(frame.ids, frame.prompt.isolated)
    whole = arena.rows.first_below(Quality.LOSSY, held) // BLOCK_TOKENS  # what was composed is never stored
    exact = arena.rows.first_below(Quality.EXACT) // BLOCK_TOKENS
    return ComputedBlocks(names[:whole], rows, exact, len(frame.ids), arena.room)


def _alone(made: ComputedExcerpt, names: Sequence[bytes]) -> ComputedBlocks:
    def rows(block: int) -> Any:
        part = made.numbers[:, :, :, block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
        lacking = BLOCK_TOKENS - part.shape[3]
        return np.pad(part, ((0, 0), (0, 0), (0, 0), (0, lacking), (0, 0))) if lacking else part

    return ComputedBlocks(names, rows, len(names) if made.quality is Quality.EXACT else 0, made.numbers.shape[3])


def _is_int8(settings: Settings) -> bool:
    return "int8_on_disk" in settings.approximations


def _options(settings: Settings, exact: Form, held_mib: int) -> StoreOptions:
    levels: dict[str, dict[str, object]] = {MEMORY: {"bytes": held_mib * MIB}}
    if settings.persist:
        form = Form.INT8 if _is_int8(settings) else exact
        levels[DISK] = {"bytes": settings.disk_mib * MIB, "form": form}
    return StoreOptions(levels, cache_folder(settings.cache_folder) if settings.persist else None)
