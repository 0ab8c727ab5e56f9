"""Opens a model's store, in a folder of its own named by the model's fingerprint.

CACHE/FINGERPRINT/about.json      the model's name, for people
CACHE/FINGERPRINT/blocks.kv       the blocks (disk/block_file.py documents the format)
CACHE/FINGERPRINT/notes/*.note    a note on each document
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

from kv_store.atomic_files import remove_abandoned, replace_file
from kv_store.block import Codec
from kv_store.codec import Coder
from kv_store.disk import messages
from kv_store.disk.disk_tier import DiskTier
from kv_store.memory import MemoryTier
from kv_store.notes import Notes
from kv_store.store import LowerTier, Store
from kv_store.warn_once import WarnOnce

ABOUT, BLOCKS, NOTES = "about.json", "blocks.kv", "notes"
OBSOLETE = "away.json"  # in which earlier versions recorded how long the user stayed away from documents
NOTES_SHARE, MAX_NOTES_BYTES = (
    16,
    1 << 23,
)  # notes get one part in NOTES_SHARE of the disk's bytes, at most the latter
UNUSED_AFTER = 30 * 24 * 3600.0  # seconds without use after which a model's folder is removed

Report = Callable[[str], None]


@dataclass(frozen=True)
class StoreOptions:
    """Sizes in bytes; a `disk_codec` of RAW means exact. Without a `folder` nothing is read from disk or written."""

    memory_bytes: int
    disk_bytes: int
    disk_codec: Codec
    folder: Path | None

    @property
    def approximate(self) -> bool:
        """Whether blocks on disk are approximations."""
        return self.folder is not None and not self.disk_codec.exact


@dataclass(frozen=True)
class OpenedStore:
    """A store, whether its blocks are approximations, and its notes and folder on disk, if it has one."""

    store: Store
    approximate: bool
    notes: Notes | None
    folder: Path | None
    warnings: WarnOnce

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job on the writer's thread, after all that is queued; an OSError becomes a warning."""
        assert self.store.writer is not None
        self.store.writer.submit(partial(self._run, job))

    def tidy(self, model: str) -> None:
        """Write the model's name and remove what is no longer needed; raises OSError."""
        if self.folder is not None:
            replace_file(self.folder / ABOUT, json.dumps({"model": model}).encode())
            cache = self.folder.parent
            for folder in (cache, self.folder, self.folder / NOTES):
                remove_abandoned(folder)
            (cache / OBSOLETE).unlink(missing_ok=True)
            _remove_unused_models(cache)

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:
            self.warnings.warn(messages.failed("written", error))


def open_store(fingerprint: bytes, coder: Coder, model: str, options: StoreOptions, report: Report) -> OpenedStore:
    """Open the store of a model; a disk that cannot be used is reported, and the store is in memory only.

    Approximate and exact blocks never share a file: approximations have a fingerprint of their own, as if of another
    model.
    """
    if options.approximate:
        fingerprint = blake2b(fingerprint + b"approximate", digest_size=len(fingerprint)).digest()
    memory = MemoryTier(options.memory_bytes, coder.size(coder.exact))
    folder = options.folder / fingerprint.hex()[:32] if options.folder else None
    warnings = WarnOnce(report)
    notes_bytes = min(options.disk_bytes // NOTES_SHARE, MAX_NOTES_BYTES)
    slot = coder.size(coder.exact if options.disk_codec is Codec.RAW else options.disk_codec)
    disk = folder and DiskTier.open(
        folder / BLOCKS, fingerprint, slot, options.disk_bytes - notes_bytes, warnings.warn
    )
    if folder is None or disk is None:
        return OpenedStore(Store(fingerprint, coder, memory), False, None, None, warnings)
    store = Store(fingerprint, coder, memory, LowerTier(disk, options.disk_codec))
    opened = OpenedStore(store, options.approximate, Notes(folder / NOTES, notes_bytes), folder, warnings)
    opened.submit(partial(opened.tidy, model))
    return opened


def _remove_unused_models(cache: Path) -> None:
    """Remove the folders of models that have not been used for a long time."""
    for folder in {path.parent for path in cache.glob(f"*/{BLOCKS}")}:
        files = [folder / name for name in (ABOUT, BLOCKS)]
        used = max(file.stat().st_mtime for file in files if file.exists())
        if time.time() - used > UNUSED_AFTER:
            shutil.rmtree(folder, ignore_errors=True)
