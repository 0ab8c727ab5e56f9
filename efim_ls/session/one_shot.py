"""Answers one question about a place in a file, as a server does: for commands, and for the daemon that they ask."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from efim_ls.access.reasons import Refusal, why_empty
from efim_ls.access.rules import Rules
from efim_ls.access.secret_text import without_secrets
from efim_ls.completion.completer import Completer
from efim_ls.completion.shared_models import SharedModels
from efim_ls.failures import Failure, FilePlace, Mistake
from efim_ls.languages.headers import header_language
from efim_ls.languages.table import family_of, language_of
from efim_ls.paths import cache_folder, real_path
from efim_ls.request import Answer, Request
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.text.document import Document
from efim_ls.text.parts import part_at
from efim_ls.workspace.database.origin import index_path, read_summary
from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.index import Scope, WorkspaceIndex, open_index
from efim_ls.workspace.overlay import Overlay
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from model_runtime.prompt.context import ContextBudget
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from model_runtime.regular_files import read_regular

BYTES_OF_A_CHARACTER = 4  # at most, in UTF-8
OneShotResult = dict[str, Any]  # what `complete` prints, as JSON can hold it


class Workspace(NamedTuple):
    """The repository around a file, and the settings of the editor that indexed it, else the defaults."""

    folder: Path | None
    settings: Settings = DEFAULTS
    is_indexed: bool = False


def find_workspace(path: Path, unindexed: bool = False) -> Workspace:
    """Return the nearest folder above a file that has an index or, if it may be `unindexed`, is git's.

    The settings come from the nearest index in any case.
    """
    cache, clone = cache_folder(""), None
    for folder in path.parents:
        if found := read_summary(index_path(cache, [folder])):
            return Workspace(clone or folder, found.origin.settings, is_indexed=clone is None)
        if unindexed and clone is None and (folder / ".git").exists():
            clone = folder
    return Workspace(clone)


def read(path: Path) -> Document:
    """Return a file as a document; raises Mistake if it cannot be read, Failure if the rules turn it off.

    The rules come from the editor that indexed the repository around it, else they are the defaults. A file whose
    name they turn off is not read.
    """
    language, workspace = language_of(str(path)), find_workspace(path.resolve())
    rules = Rules(workspace.settings, [workspace.folder.as_uri()] if workspace.folder else [])
    verdict = rules.verdict(path.absolute().as_uri(), language)
    _allow(verdict.refusal(0))
    try:
        text = read_regular(path, BYTES_OF_A_CHARACTER * verdict.most_characters).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Mistake(f"{path} is not UTF-8 text: convert it, or name another file") from error
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error}") from error
    _allow(verdict.refusal(len(text)))
    return Document(path.resolve().as_uri(), _language(path.resolve(), text), text)


def _language(path: Path, text: str) -> str:
    return header_language(language_of(str(path)), str(path), text)


def _allow(off: Refusal | None) -> None:
    if off:
        raise Failure(off.why)


def cursor_at(document: Document, place: FilePlace) -> tuple[int, str]:
    """Return the offset of a place, or of the nearest place with text, and then a message on that."""
    cursor = document.offset(place.line - 1, place.column - 1, "utf-32")
    line, column = (number + 1 for number in document.position(cursor, "utf-32"))
    if (line, column) == (place.line, place.column):
        return cursor, ""
    return cursor, f"{place.path} has no text at {place.line}:{place.column}: completing at {line}:{column} instead"


def load(model: str, shows_others: bool = False) -> Completer:
    """Load a model that keeps nothing on disk, and may read text of other files; raises Failure."""
    others = "text" if shows_others else "phrases"
    settings = Settings(
        model=model,
        persist=False,
        other_files=others,
        engine=replace(DEFAULTS.engine, alone=True),
        prefetch_seconds_per_minute=0,
    )
    try:
        return SharedModels(lasting=False).load(settings, lambda message, _: logging.debug(message))
    except ModelError as error:
        raise Failure(str(error)) from error


def answer_once(completer: Completer, request: Request, is_asked: bool, cancel: Cancel) -> OneShotResult:
    """Return the answer to a key and, unless only that `is_asked`, the answer to typing; reasons are sentences.

    Once `cancel()` is true, it soon returns superseded answers.
    """
    asked = completer.complete(request, cancel)
    typing = replace(request, uri=f"{request.uri}#unasked", explicit=False, least="balanced")
    unasked = None if is_asked else _as_result(completer.complete(typing, cancel))
    return {
        "answer": _as_result(asked),
        "unasked": unasked,
        "notice": completer.notice(completer.models.settled(request).language),
    }


def request_at(document: Document, cursor: int, model: str, tokenizers: LanguageTokenizers | None) -> Request:
    """Return the request of a key at a cursor in a file."""
    text = without_secrets(document.text, document.language)
    request = Request(document.uri, text, cursor, explicit=True, language=document.language)
    part = part_at(document.language, document.text, cursor)
    return with_repository(request.at_part(part), model, tokenizers)


def _as_result(answer: Answer) -> OneShotResult:
    nothing = why_empty(answer)
    fields = asdict(replace(answer, better=None))
    del fields["better"]  # one answer is all that is waited for
    return fields | {"why": nothing and nothing.why}


def with_repository(
    request: Request,
    model: str,
    tokenizers: LanguageTokenizers | None,
    unindexed: bool = False,
    context: ContextBudget = (),
) -> Request:
    """Return a request with what the repository around its file says, and with text of other files that fits.

    The repository is the nearest folder that has an index or, if it may be `unindexed`, is git's. An index that was
    made with this model is brought up to date, unless such text is wanted, whose words are not left on the disk.
    Without one all files are read, into memory alone: in a large repository that takes a minute.
    """
    path = Path(real_path(request.uri))
    folder, settings, is_indexed = find_workspace(path, unindexed)
    if folder is None or tokenizers is None:
        return request
    if not is_indexed or settings.model != model or any(context):
        settings = replace(settings, persist=False)
    scope = Scope.of(settings, Rules(settings, [folder.as_uri()]), [folder], tokenizers, context)
    index, mine = WorkspaceIndex(scope, open_index(scope, logging.warning)), Overlay()
    from rich.console import Console

    with Console(stderr=True).status(f"reading {folder}"):
        place = RetrievalPlace(str(path), request.text, request.cursor)
        opening = index.open(mine, str(path), _language(path, request.text), request.text)
        for _ in chain(index.join(mine), index.build(), opening, index.retrieve(mine, place)):
            pass
    known = mine.counts.get(family_of(request.language))
    counts = known and known.without([str(path)])
    index.close()
    return replace(request, counts=counts, context=mine.context.at(str(path), request.cursor))
