"""Opens a model's store: the levels that the options name, in a folder named by the model's fingerprint.

CACHE/FINGERPRINT/about.json      the model's name, for people
CACHE/FINGERPRINT/blocks.kv       the blocks (disk/block_file.py documents the format)
CACHE/FINGERPRINT/notes/*.note    a note on each document
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kv_store.atomic_files import remove_abandoned, replace_file
from kv_store.block import BlockCodec
from kv_store.disk import messages
from kv_store.disk.disk_tier import DiskTier
from kv_store.memory import MemoryTier
from kv_store.notes import Notes
from kv_store.shared.opening import open_shared
from kv_store.store import Store
from kv_store.tier import Level, Reach, StoreContext
from kv_store.warn_once import WarnOnce

MEMORY, DISK, SHARED = "memory", "disk", "shared"  # names of levels
ABOUT, BLOCKS, NOTES = "about.json", "blocks.kv", "notes"
NOTES_SHARE, MAX_NOTES_BYTES = 16, 1 << 23  # the part of the disk's bytes that notes get, and the most bytes
UNUSED_AFTER = 30 * 24 * 3600.0  # seconds without use after which a model's folder is removed

Report = Callable[[str], None]


@dataclass(frozen=True)
class StoreOptions:
    """The levels to open: their names in `TIERS`, each with what its row there reads.

    Without a `folder` nothing outlives the process.
    """

    levels: Mapping[str, Mapping[str, Any]]
    folder: Path | None


@dataclass(frozen=True)
class OpenedStore:
    """A store, the names of its levels, whether some blocks are approximations, and its notes and folder on disk.

    It `reaches_others` if one of its levels is on other machines.
    """

    store: Store
    levels: Sequence[str]
    approximate: bool
    notes: Notes | None
    folder: Path | None
    warnings: WarnOnce
    reaches_others: bool

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job on the thread that writes to disk, after all that is queued; an OSError becomes a warning."""
        self.store.submit(self.levels.index(DISK), partial(self._run, job))

    def tidy(self, model: str) -> None:
        """Write the model's name and remove obsolete files; raises OSError."""
        if self.folder is not None:
            replace_file(self.folder / ABOUT, json.dumps({"model": model}).encode())
            cache = self.folder.parent
            for folder in (cache, self.folder, self.folder / NOTES):
                remove_abandoned(folder)
            _remove_unused_models(cache)

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:
            self.warnings.warn(messages.failed("written", error))


def open_store(
    fingerprint: bytes, codec: BlockCodec, model: str, options: StoreOptions, report: Report
) -> OpenedStore:
    """Open the store of a model; a level that cannot be used is reported, and the store does without.

    Approximate and exact blocks never share a file: approximations have a different fingerprint, as if of another
    model.
    """
    if not all(codec.is_exact(wanted.get("form", codec.exact)) for wanted in options.levels.values()):
        fingerprint = blake2b(fingerprint + b"approximate", digest_size=len(fingerprint)).digest()
    folder = options.folder / fingerprint.hex()[:32] if options.folder else None
    warnings = WarnOnce(report)
    context = StoreContext(fingerprint, codec, folder, warnings.warn)
    found = {name: row(context, options.levels[name]) for name, row in TIERS.items() if name in options.levels}
    levels = {name: level for name, level in found.items() if level}
    store = Store(fingerprint, codec, list(levels.values()))
    approximate = not all(codec.is_exact(level.form) for level in levels.values())
    reaches_others = any(level.reach is Reach.NETWORK for level in levels.values())
    opened = OpenedStore(store, list(levels), approximate, None, None, warnings, reaches_others)
    if folder is None or DISK not in levels:
        return opened
    notes = Notes(folder / NOTES, _notes_bytes(options.levels[DISK]["bytes"]))
    opened = replace(opened, notes=notes, folder=folder)
    opened.submit(partial(opened.tidy, model))
    return opened


def _open_memory(context: StoreContext, options: Mapping[str, Any]) -> Level:
    """Reserve `bytes` of host memory, for exact blocks; raises MemoryError."""
    exact = context.codec.exact
    tier = MemoryTier(options["bytes"], context.codec.slot_bytes(exact))
    return Level(tier, exact, behind=False, reach=Reach.PROCESS)


def _open_disk(context: StoreContext, options: Mapping[str, Any]) -> Level | None:
    """Open the model's file of blocks of a `form`, which takes `bytes` together with the notes."""
    assert context.folder is not None
    form, capacity = options["form"], options["bytes"] - _notes_bytes(options["bytes"])
    slot = context.codec.slot_bytes(form)
    tier = DiskTier.open(context.folder / BLOCKS, context.fingerprint, slot, capacity, context.report)
    return Level(tier, form, behind=True, reach=Reach.DISK) if tier else None


def _notes_bytes(disk_bytes: int) -> int:
    return min(disk_bytes // NOTES_SHARE, MAX_NOTES_BYTES)


# What opens a level, by its name, fastest first; None if it cannot be used here, which has been reported.
TIERS: Mapping[str, Callable[[StoreContext, Mapping[str, Any]], Level | None]] = {
    MEMORY: _open_memory,
    DISK: _open_disk,
    SHARED: open_shared,
}


def _remove_unused_models(cache: Path) -> None:
    """Remove the folders of models that have not been used for a long time."""
    for folder in {path.parent for path in cache.glob(f"*/{BLOCKS}")}:
        files = [folder / name for name in (ABOUT, BLOCKS)]
        used = max(file.stat().st_mtime for file in files if file.exists())
        if time.time() - used > UNUSED_AFTER:
            shutil.rmtree(folder, ignore_errors=True)
