"""`efim-ls complete`: prints one completion at a place in a file."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from efim_ls.access.reasons import refusal
from efim_ls.commands.arguments import Failure, Mistake, check_model
from efim_ls.commands.memory import read_memory
from efim_ls.languages import language_of
from efim_ls.request import Answer, Request
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.text.document import Document
from model_runtime.errors import ModelError

if TYPE_CHECKING:
    from efim_ls.completion.completer import Completer


class FilePlace(NamedTuple):
    """A cursor in a file, both counted from 1 as users count."""

    path: Path
    line: int
    column: int


def show(place: FilePlace, as_json: bool, model: str) -> int:
    """Complete at a place; print the text, or a JSON object with text, costs and reason."""
    document = read(place.path)
    check_model(model)
    cursor = cursor_at(document, place)
    answer, unasked, notice = _answer(document, cursor, place.path.resolve(), model, is_told=not as_json)
    why = refusal(answer.reason, confidence=answer.confidence, least=0.0).why if answer.reason else None
    if as_json:
        print(json.dumps(asdict(answer) | {"why": why, "notice": notice}))
        return 0
    if notice:
        _tell(notice)
    if answer.text:
        print(answer.text)
        if unasked:
            _tell_what_is_hidden(unasked)
    else:
        _tell(f"no suggestion: {why}")
    return 0


def read(path: Path) -> Document:
    """Return a file as a document; raises Mistake if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} cannot be read as UTF-8 text: {error}") from error
    return Document(path.resolve().as_uri(), language_of(str(path)), text)


def cursor_at(document: Document, place: FilePlace) -> int:
    """Return the offset of a place, or of the nearest one that has text, which is then said."""
    cursor = document.offset(place.line - 1, place.column - 1, "utf-32")
    line, column = (number + 1 for number in document.position(cursor, "utf-32"))
    if (line, column) != (place.line, place.column):
        _tell(f"{place.path} has no text at {place.line}:{place.column}: completing at {line}:{column} instead")
    return cursor


def load(model: str) -> Completer:
    """Load a model that keeps nothing on disk; raises Failure."""
    from efim_ls.completion.completer import Completer  # importing a model's runtime takes a while

    try:
        return Completer.load(Settings(model=model, persist=False), lambda message, _: logging.debug(message))
    except ModelError as error:
        raise Failure(str(error)) from error


def _answer(
    document: Document, cursor: int, path: Path, model: str, is_told: bool
) -> tuple[Answer, Answer | None, str | None]:
    """Return the answers to a key and, if that `is_told`, to typing, and what to say of an unknown language."""
    completer = load(model)
    memory = read_memory(path, document.language, model, completer.tokenizer)
    request = Request(document.uri, document.text, cursor, explicit=True, language=document.language, memory=memory)
    typing = replace(request, uri=f"{request.uri}#unasked", explicit=False, least=DEFAULTS.min_confidence)
    asked = completer.complete(request, lambda: False)
    unasked = completer.complete(typing, lambda: False) if is_told else None
    return asked, unasked, completer.notice(document.language)


def _tell_what_is_hidden(unasked: Answer) -> None:
    """Say which part of a suggestion editors would not show while the user types."""
    if unasked.reason:
        why = refusal(unasked.reason, confidence=unasked.confidence, least=DEFAULTS.min_confidence).why
        _tell(f"while you type, editors show nothing here: {why}")
    elif unasked.hidden:
        end = unasked.text.rpartition("\n")[2].strip()
        _tell(f"while you type, editors show this up to {end!r}, since the rest is too unlikely (min_confidence)")


def _tell(message: str) -> None:
    print(f"efim-ls: {message}", file=sys.stderr)
