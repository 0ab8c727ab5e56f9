"""`efim-ls cache`: what is kept on disk, of which model and file; check it, remove it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.completion.frame_notes import uri_of
from efim_ls.paths import SPEED
from efim_ls.uris import document_tag, file_path
from kv_store.atomic_files import NEW
from kv_store.block import BLOCK_TOKENS
from kv_store.disk.header import SegmentError
from kv_store.disk.inspection import Usage, forget, usage, verify
from kv_store.disk.segment import Segment
from kv_store.notes import Notes
from kv_store.open import ABOUT, BLOCKS, NOTES, OBSOLETE

MB = 1e6
NOTHING_USED = Usage(0, 0, 0)


class Kept(NamedTuple):
    """A model's store: its folder, the model's name, its file or what is wrong with that."""

    folder: Path
    model: str
    file: Segment | str

    @property
    def notes(self) -> Notes:
        """The notes on documents beside the blocks."""
        return Notes(self.folder / NOTES, most_bytes=0)


def show(cache: Path) -> int:
    """List models and the files that something is kept of."""
    console = Console()
    for kept in _stores(cache):
        if isinstance(kept.file, str):
            print(f"{kept.model}: {kept.folder / BLOCKS} cannot be used: {kept.file}")
            continue
        by_document = usage(kept.file)
        size = sum(each.bytes for each in by_document.values()) / MB
        print(f"{kept.model}: {size:.1f} MB in {kept.folder / BLOCKS}")
        table = Table("file", "tokens", "MB", "last used")
        for document in dict.fromkeys((*by_document, *kept.notes.documents())):
            table.add_row(*_row(_name(kept, document), by_document.get(document, NOTHING_USED)))
        if table.rows:
            console.print(table)
    if not any(_folders(cache)):
        print(f"nothing is kept in {cache}")
    return 0


def check(cache: Path) -> int:
    """Read all blocks and remove the damaged ones; 1 if there were any."""
    damaged = 0
    for kept in _stores(cache):
        if isinstance(kept.file, str):
            damaged += 1
            print(f"{kept.model}: {kept.folder / BLOCKS} cannot be used: {kept.file}; a server will replace it")
            continue
        found = verify(kept.file, drop=not kept.file.read_only)
        damaged += found.damaged
        fate = "the file may only be read, so they stay" if kept.file.read_only else "they are removed"
        told = f"{found.damaged} were damaged: {fate}" if found.damaged else "none was damaged"
        print(f"{kept.model}: {found.whole} blocks are whole, {told}")
    return min(damaged, 1)


def clear(cache: Path, file: Path | None) -> int:
    """Remove all that is kept, or all that is kept of one file, 1 if there was nothing of it; raises OSError."""
    if file is None:
        size = sum(_occupied(path) for folder in _folders(cache) for path in folder.rglob("*") if path.is_file())
        print(f"removed: {size / MB:.1f} MB that were kept of {_clear_all(cache)} models")
        return 0
    removed = sum(_clear_document(kept, file) for kept in _stores(cache))
    print(f"removed: {removed} blocks and notes of {file}")
    return 0 if removed else 1


def _occupied(path: Path) -> int:
    """Bytes that a file takes on disk: one that is reserved for blocks has holes."""
    status = path.stat()
    return status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size


def _clear_all(cache: Path) -> int:
    folders = _folders(cache)
    for folder in folders:
        shutil.rmtree(folder)
    for name in (OBSOLETE, SPEED):
        (cache / name).unlink(missing_ok=True)
    for path in cache.glob(f"{NEW}*"):
        path.unlink(missing_ok=True)
    return len(folders)


def _clear_document(kept: Kept, file: Path) -> int:
    """Remove what is kept of a file, by whatever way to it the editor has named it; returns how much."""
    same = {document_tag(path.as_uri()) for path in (file.absolute(), file.resolve())}
    same |= {document for document in kept.notes.documents() if _leads_to(_name(kept, document), file)}
    removed = 0
    for document in same:
        removed += kept.notes.read(document) is not None
        kept.notes.forget(document)
        if isinstance(kept.file, Segment):
            removed += usage(kept.file).get(document, NOTHING_USED).blocks
            forget(kept.file, document)
    return removed


def _leads_to(name: str, file: Path) -> bool:
    return os.path.realpath(name) == os.path.realpath(file)


def _folders(cache: Path) -> list[Path]:
    """The folders of models, and nothing else that may be there."""
    return sorted({path.parent for name in (ABOUT, BLOCKS, NOTES) for path in cache.glob(f"*/{name}")})


def _stores(cache: Path) -> Iterator[Kept]:
    for folder in _folders(cache):
        try:
            file = Segment.open(folder / BLOCKS)
        except (OSError, SegmentError) as error:
            file = str(error)
        yield Kept(folder, _model(folder), file)


def _model(folder: Path) -> str:
    try:
        return str(json.loads((folder / ABOUT).read_bytes())["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return "a model whose name is not known any more"


def _name(kept: Kept, document: int) -> str:
    note = kept.notes.read(document)
    uri = uri_of(note) if note else None
    return file_path(uri) or uri if uri else f"(unknown, {document:016x})"


def _row(name: str, used: Usage) -> tuple[str, str, str, str]:
    when = datetime.fromtimestamp(used.used).isoformat(" ", "minutes") if used.used else ""
    return escape(name), f"{used.blocks * BLOCK_TOKENS:,}", f"{used.bytes / MB:.1f}", when
