"""Opens the store of a model: a folder of its own below the cache's, named by the model's fingerprint.

CACHE/FINGERPRINT/about.json      the model's name, for people
CACHE/FINGERPRINT/blocks.kv       the blocks (segment.py has the format)
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
from kv_store.complaints import Complaints
from kv_store.disk.tier import DiskTier
from kv_store.memory import MemoryTier
from kv_store.notes import Notes
from kv_store.store import Lower, Store

ABOUT, BLOCKS, NOTES = "about.json", "blocks.kv", "notes"
OBSOLETE = "away.json"  # how long the user stayed away from documents, which earlier versions wrote
NOTES_SHARE, MOST_NOTES_BYTES = 16, 1 << 23  # of the disk's bytes
FORGOTTEN_AFTER = 30 * 24 * 3600.0  # seconds in which nobody used a model

Report = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """Sizes in bytes. Without a `folder` nothing is read from disk or written to it."""

    memory_bytes: int
    disk_bytes: int
    disk_codec: Codec
    folder: Path | None

    @property
    def approximate(self) -> bool:
        """Whether blocks on disk lose something."""
        return self.folder is not None and self.disk_codec is not Codec.RAW


@dataclass(frozen=True)
class Opened:
    """A store, whether it loses something, and where it is on disk, if it is."""

    store: Store
    approximate: bool
    notes: Notes | None
    folder: Path | None
    complaints: Complaints

    def behind(self, job: Callable[[], None]) -> None:
        """Have a job done on the writer's thread, after all that was to be written; who fails tells why, once."""
        assert self.store.writer is not None
        self.store.writer.run(partial(self._done, job))

    def tidy(self, model: str) -> None:
        """Say whose folder this is, and remove what nobody needs any more; raises OSError."""
        if self.folder is not None:
            replace_file(self.folder / ABOUT, json.dumps({"model": model}).encode())
            for folder in (self.folder.parent, self.folder, self.folder / NOTES):
                remove_abandoned(folder)
            (self.folder.parent / OBSOLETE).unlink(missing_ok=True)
            _remove_unused(self.folder.parent)

    def _done(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:
            self.complaints.failed("written", error)


def open_store(fingerprint: bytes, coder: Coder, model: str, options: Options, report: Report) -> Opened:
    """Open the store of a model; what cannot be used is reported, and done without.

    Approximations are never in one file with what is exact: they are as if of another model.
    """
    if options.approximate:
        fingerprint = blake2b(fingerprint + b"approximate", digest_size=len(fingerprint)).digest()
    memory = MemoryTier(options.memory_bytes, coder.size(Codec.RAW))
    folder = options.folder / fingerprint.hex()[:32] if options.folder else None
    complaints = Complaints(report)
    disk = _disk(folder, fingerprint, coder, options, complaints.say) if folder else None
    if folder is None or disk is None:
        store = Store(fingerprint, coder, memory)
        return Opened(store, False, None, None, complaints)
    lower = Lower(disk, options.disk_codec)
    store = Store(fingerprint, coder, memory, lower)
    notes = Notes(folder / NOTES, _notes_bytes(options))
    opened = Opened(store, options.approximate, notes, folder, complaints)
    opened.behind(partial(opened.tidy, model))
    return opened


def _disk(folder: Path, fingerprint: bytes, coder: Coder, options: Options, report: Report) -> DiskTier | None:
    blocks_bytes = options.disk_bytes - _notes_bytes(options)
    return DiskTier.open(folder / BLOCKS, fingerprint, coder.size(options.disk_codec), blocks_bytes, report)


def _notes_bytes(options: Options) -> int:
    return min(options.disk_bytes // NOTES_SHARE, MOST_NOTES_BYTES)


def _remove_unused(cache: Path) -> None:
    """Remove what is kept of models that nobody used for long."""
    for folder in {path.parent for path in cache.glob(f"*/{BLOCKS}")}:
        files = [folder / name for name in (ABOUT, BLOCKS)]
        used = max(file.stat().st_mtime for file in files if file.exists())
        if time.time() - used > FORGOTTEN_AFTER:
            shutil.rmtree(folder, ignore_errors=True)
