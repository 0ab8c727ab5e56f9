"""`efim-ls cache`: list, check or remove the cache on disk of each model and file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.commands.arguments import counted, model_name
from efim_ls.completion.planning.notes import uri_of
from efim_ls.paths import HASHES, OVERFLOW, document_tag, file_path
from efim_ls.workspace.database.origin import (
    REPOSITORIES,
    SUFFIX,
    IndexSummary,
    index_size,
    read_summary,
    remove_index,
)
from efim_ls.workspace.database.tables import find_damage
from efim_ls.workspace.index_file import remove_file
from kv_store.atomic_files import TEMPORARY_PREFIX
from kv_store.block import BLOCK_TOKENS
from kv_store.disk.block_file import BlockFile
from kv_store.disk.header import BlockFileError
from kv_store.disk.inspection import Usage, remove_document, usage_by_document, verify
from kv_store.notes import Notes
from kv_store.open import ABOUT, BLOCKS, NOTES

MB = 1e6
UNUSED = Usage(0, 0, 0)


class ModelCache(NamedTuple):
    """A model's folder in the cache, the model's name, and its block file or why that cannot be opened."""

    folder: Path
    model: str
    file: BlockFile | str

    @property
    def notes(self) -> Notes:
        """The notes on documents, stored with the blocks."""
        return Notes(self.folder / NOTES, max_bytes=0)


def show(cache: Path) -> int:
    """List the models and files in the cache."""
    console = Console()
    for model in _models(cache):
        if isinstance(model.file, str):
            print(f"{model.model}: {model.folder / BLOCKS} cannot be used: {model.file}")
            continue
        by_document = usage_by_document(model.file)
        size = sum(each.bytes for each in by_document.values()) / MB
        print(f"{model.model}: {size:.1f} MB in {model.folder / BLOCKS}")
        table = Table("file", "tokens", "MB", "last used")
        for document, used in by_document.items():
            table.add_row(*_row(_document_name(model, document), used))
        if table.rows:
            console.print(table)
        if more := len(set(model.notes.documents()) - by_document.keys()):
            print(f"and notes of {counted(more, 'more file')}, without separate tokens")
    for path in _indexes(cache):
        found = read_summary(path)
        what = f"{_index_name(found)}: {counted(found.total, 'file')}," if found else "a damaged index:"
        print(f"{what} {index_size(path) / MB:.1f} MB in {path}")
    for path in (cache / OVERFLOW).glob("*"):
        print(f"experts of a model: {_disk_usage(path) / MB:.1f} MB in {path}")
    if not any((*_folders(cache), *_indexes(cache), *(cache / OVERFLOW).glob("*"))):
        print(f"nothing is cached in {cache}")
    return 0


def check(cache: Path) -> int:
    """Read all blocks and remove damaged ones, and check all indexes; return 1 if there was damage."""
    damaged = sum([_check_index(path) for path in _indexes(cache)])
    for model in _models(cache):
        if isinstance(model.file, str):
            damaged += 1
            print(f"{model.model}: {model.folder / BLOCKS} cannot be used: {model.file}; a server will replace it")
            continue
        found = verify(model.file, remove=not model.file.read_only)
        damaged += found.damaged
        outcome = "kept: the file is read-only" if model.file.read_only else "removed"
        damage = f"{found.damaged} damaged ({outcome})" if found.damaged else "none damaged"
        print(f"{model.model}: {found.whole} blocks whole, {damage}")
    return min(damaged, 1)


def clear(cache: Path, file: Path | None) -> int:
    """Remove everything, or one file's data; return 1 if there was none for that file. Raises OSError."""
    if file is None:
        folders = (*_folders(cache), cache / REPOSITORIES, cache / OVERFLOW)
        size = sum(_disk_usage(path) for folder in folders for path in folder.rglob("*") if path.is_file())
        for folder in folders:
            if folder.is_dir():
                shutil.rmtree(folder)
        (cache / HASHES).unlink(missing_ok=True)
        for path in cache.glob(f"{TEMPORARY_PREFIX}*"):
            path.unlink(missing_ok=True)
        print(f"removed: {size / MB:.1f} MB")
        return 0
    removed = sum(_clear_document(model, file) for model in _models(cache))
    indexes = sum(_clear_from_index(path, file) for path in _indexes(cache))
    print(f"removed: {removed} blocks and notes of {file}" + ", and its part of the index" * bool(indexes))
    return 0 if removed or indexes else 1


def _disk_usage(path: Path) -> int:
    """Return the bytes that a file takes on disk: block files have holes."""
    status = path.stat()
    return status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size


def _clear_document(model: ModelCache, file: Path) -> int:
    """Remove the blocks and notes of a file, under every URI that leads to it; return how many."""
    documents = {document_tag(path.as_uri()) for path in (file.absolute(), file.resolve())}
    for document in model.notes.documents():
        if os.path.realpath(_document_name(model, document)) == os.path.realpath(file):
            documents.add(document)
    removed = 0
    for document in documents:
        removed += model.notes.read(document) is not None
        model.notes.remove(document)
        if isinstance(model.file, BlockFile):
            removed += usage_by_document(model.file).get(document, UNUSED).blocks
            remove_document(model.file, document)
    return removed


def _clear_from_index(index: Path, file: Path) -> bool:
    """Remove a file from an index; a damaged index is removed whole, as a server would replace it."""
    try:
        return remove_file(index, os.path.realpath(file))
    except (sqlite3.Error, ValueError):
        remove_index(index)
        return True


def _check_index(path: Path) -> bool:
    """Tell whether an index is whole, and return whether it is damaged."""
    found = read_summary(path)
    name = f"{_index_name(found)} in {path}" if found else f"index in {path}"
    try:
        damage = find_damage(path)
    except sqlite3.OperationalError:
        print(f"{name}: not checked, because a server is writing to it; try again")
        return False
    remedy = "remove it with `efim-ls index FOLDER --clear`, or all with `efim-ls cache clear`"
    print(f"{name}: damaged ({damage}); {remedy}" if damage else f"{name}: whole")
    return bool(damage)


def _index_name(found: IndexSummary) -> str:
    return f"index of {', '.join(found.origin.folders)}"


def _indexes(cache: Path) -> list[Path]:
    return sorted((cache / REPOSITORIES).glob(f"*{SUFFIX}"))


def _folders(cache: Path) -> list[Path]:
    """Return the models' folders, without anything else in the cache."""
    return sorted({path.parent for name in (ABOUT, BLOCKS, NOTES) for path in cache.glob(f"*/{name}")})


def _models(cache: Path) -> Iterator[ModelCache]:
    for folder in _folders(cache):
        try:
            file = BlockFile.open(folder / BLOCKS)
        except (OSError, BlockFileError) as error:
            file = str(error)
        yield ModelCache(folder, _model_name(folder), file)


def _model_name(folder: Path) -> str:
    try:
        return model_name(str(json.loads((folder / ABOUT).read_bytes())["model"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "a model of unknown name"


def _document_name(model: ModelCache, document: int) -> str:
    note = model.notes.read(document)
    uri = uri_of(note) if note else None
    return file_path(uri) or uri if uri else f"(unknown, {document:016x})"


def _row(name: str, used: Usage) -> tuple[str, str, str, str]:
    when = datetime.fromtimestamp(used.used).isoformat(" ", "minutes") if used.used else ""
    return escape(name), f"{used.blocks * BLOCK_TOKENS:,}", f"{used.bytes / MB:.1f}", when
