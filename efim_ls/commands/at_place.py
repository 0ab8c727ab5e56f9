"""What commands that complete at a place in a file do, as a server does it."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from efim_ls.access.reasons import refusal
from efim_ls.access.rules import Rules
from efim_ls.commands.arguments import Failure, FilePlace, Mistake
from efim_ls.completion.completer import Completer
from efim_ls.languages import family_of, language_of
from efim_ls.paths import cache_folder, real_path
from efim_ls.repository.database.origin import read_summary
from efim_ls.repository.database.place import index_path
from efim_ls.repository.workspace_index import Scope, WorkspaceIndex, open_index
from efim_ls.request import Answer, Request, ShouldStop
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.text.document import Document
from model_runtime.errors import ModelError
from model_runtime.memory.view import MemoryView
from model_runtime.prompt.tokenizer import Tokenizer

Told = dict[str, Any]  # what `complete` prints, as JSON can hold it


def read(path: Path) -> Document:
    """Return a file as a document; raises Mistake if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} cannot be read as UTF-8 text: {error}") from error
    return Document(path.resolve().as_uri(), language_of(str(path)), text)


def cursor_at(document: Document, place: FilePlace) -> tuple[int, str]:
    """Return the offset of a place, or of the nearest one that has text, and then what to say of that."""
    cursor = document.offset(place.line - 1, place.column - 1, "utf-32")
    line, column = (number + 1 for number in document.position(cursor, "utf-32"))
    if (line, column) == (place.line, place.column):
        return cursor, ""
    return cursor, f"{place.path} has no text at {place.line}:{place.column}: completing at {line}:{column} instead"


def load(model: str) -> Completer:
    """Load a model that keeps nothing on disk; raises Failure."""
    try:
        return Completer.load(Settings(model=model, persist=False), lambda message, _: logging.debug(message))
    except ModelError as error:
        raise Failure(str(error)) from error


def tell(completer: Completer, request: Request, is_asked: bool, stopped: ShouldStop) -> Told:
    """Return the answer to a key and, unless only that `is_asked`, the answer to typing; reasons are sentences.

    Once `stopped()` is true, it soon returns superseded answers.
    """
    asked = completer.complete(request, stopped)
    typing = replace(request, uri=f"{request.uri}#unasked", explicit=False, least=DEFAULTS.min_confidence)
    unasked = None if is_asked else _as_told(completer.complete(typing, stopped), DEFAULTS.min_confidence)
    return {
        "answer": _as_told(asked, 0.0),
        "unasked": unasked,
        "notice": completer.notice(request.language),
    }


def request_at(document: Document, cursor: int, model: str, tokenizer: Tokenizer | None) -> Request:
    """Return the request of a key at a cursor in a file."""
    memory = read_memory(Path(real_path(document.uri)), document.language, model, tokenizer)
    return Request(document.uri, document.text, cursor, explicit=True, language=document.language, memory=memory)


def _as_told(answer: Answer, least: float) -> Told:
    why = refusal(answer.reason, confidence=answer.confidence, least=least).why if answer.reason else None
    return asdict(answer) | {"why": why}


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
    found = read_summary(places[folder])
    settings = found.origin.settings if found else DEFAULTS
    if not found or settings.model != model:
        settings = replace(settings, persist=False)
    scope = Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], tokenizer)
    index = WorkspaceIndex(scope, open_index(scope, logging.warning), lambda _: None)
    from rich.console import Console

    with Console(stderr=True).status(f"reading {folder}"):
        for _ in index.build():
            pass
    snapshot = index.snapshot.get(family_of(language))
    index.close()
    return snapshot.without([str(path)]) if snapshot else None
