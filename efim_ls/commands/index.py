"""`efim-ls index`: builds, describes and removes the index of a workspace folder."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path

from rich.console import Console

from efim_ls.access.rules import Rules
from efim_ls.commands.arguments import counted
from efim_ls.completion.models.kinds import kind_of, larger_folder, of_embedded
from efim_ls.completion.models_by_language import has_own_models, own_tokenizers
from efim_ls.failures import Failure
from efim_ls.languages.table import name_of
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.workspace.database.origin import IndexSummary, index_path, index_size, read_summary, remove_index
from efim_ls.workspace.index import Scope, WorkspaceIndex, open_index
from efim_ls.workspace.overlay import IndexStatus, Overlay
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_architecture, read_tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

MB = 1e6


def build(folder: Path, cache: Path, rebuild: bool) -> int:
    """Bring the index of a folder up to date, or make it from nothing; raises OSError."""
    path = index_path(cache, [folder])
    found = read_summary(path)
    settings = found.origin.settings if found else DEFAULTS
    if not settings.persist:
        raise Failure("the setting 'persist' is off, so nothing is kept on disk: turn it on to keep an index")
    tokenizers, problems = _tokenizers(settings), list[str]()
    if rebuild:
        remove_index(path)
    top = Path(os.path.realpath(folder))
    scope = Scope.of(replace(settings, cache_folder=str(cache)), Rules(settings, [top.as_uri()]), [top], tokenizers)
    with Console(stderr=True).status("looking for files") as status:

        def report(progress: IndexStatus) -> None:
            if progress.total:
                status.update(f"indexing: {progress.done:,} of {progress.total:,} files")

        index = WorkspaceIndex(scope, open_index(scope, problems.append))
        for _ in chain(index.join(Overlay(report)), index.build()):
            pass
    index.close()
    made = read_summary(path)
    if problems or made is None:
        raise Failure(problems[0] if problems else f"{path} was removed while it was built: run the command again")
    print(_sentence(path, made))
    return 0


def show(folder: Path, cache: Path) -> int:
    """Print the index of a folder; return 1 if there is no index."""
    path = index_path(cache, [folder])
    found = read_summary(path)
    if found is None:
        print(f"there is no index of {os.path.realpath(folder)}: run efim-ls index to make one")
        return 1
    changed = datetime.fromtimestamp(max(each.stat().st_mtime for each in path.parent.glob(f"{path.name}*")))
    print(f"{_sentence(path, found)}, last changed {changed.isoformat(' ', 'minutes')}")
    for language, count in found.files.items():
        print(f"  {name_of(language)}: {count:,}")
    return 0


def clear(folder: Path, cache: Path) -> int:
    """Remove the index of a folder; return 1 if there is none. Raises OSError."""
    path = index_path(cache, [folder])
    size = index_size(path)
    remove_index(path)
    print(f"removed: {size / MB:.1f} MB")
    return 0 if size else 1


def _sentence(path: Path, found: IndexSummary) -> str:
    are = "is" if found.total == 1 else "are"
    return f"{counted(found.total, 'file')} {are} indexed: {index_size(path) / MB:.1f} MB in {path}"


def _tokenizers(settings: Settings) -> LanguageTokenizers:
    """Return the tokenizers of the models that a server would use; raises Failure if one is not there."""
    try:
        if larger_folder(settings):
            settings = of_embedded(settings)
        folder = kind_of(settings).folder(settings)
        if folder is None:
            raise Failure(f"{settings.model} has not been downloaded: open a file in an editor that uses it")
        default = read_tokenizer(folder, read_architecture(folder))
        return LanguageTokenizers(default, own_tokenizers if has_own_models(settings) else None)
    except ModelError as error:
        raise Failure(str(error)) from error
