"""What commands that complete in a file read of its repository, as a server does."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from efim_ls.access.rules import Rules
from efim_ls.languages import family_of
from efim_ls.paths import cache_folder
from efim_ls.repository.database.origin import read_summary
from efim_ls.repository.database.place import index_path
from efim_ls.repository.workspace_index import Scope, WorkspaceIndex, open_index
from efim_ls.settings import DEFAULTS
from model_runtime.memory.view import MemoryView
from model_runtime.prompt.tokenizer import Tokenizer


def read_memory(
    path: Path, language: str, model: str, tokenizer: Tokenizer | None, unindexed: bool = False
) -> MemoryView | None:
    """Return what the repository around a file says in its language without that file, None if that is nothing.

    The repository is the nearest folder that has an index or, if it may be `unindexed`, is git's. An index that was
    made with this model is brought up to date. Without one all files are read, into memory alone: in a large
    repository that takes a minute.
    """
    cache = cache_folder("")
    places = {each: index_path(cache, [each]) for each in path.parents}
    known = (each for each in places if places[each].exists() or (unindexed and (each / ".git").exists()))
    folder = next(known, None)
    if folder is None or tokenizer is None:
        return None
    from rich.console import Console

    found = read_summary(places[folder])
    settings = found.origin.settings if found else DEFAULTS
    if not found or settings.model != model:
        settings = replace(settings, persist=False)
    scope = Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], tokenizer)
    index = WorkspaceIndex(scope, open_index(scope, logging.warning), lambda _: None)
    with Console(stderr=True).status(f"reading {folder}"):
        for _ in index.build():
            pass
    snapshot = index.snapshot.get(family_of(language))
    index.close()
    return snapshot.without([str(path)]) if snapshot else None
