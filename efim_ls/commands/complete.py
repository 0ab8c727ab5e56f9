"""`efim-ls complete`: prints one completion at a place in a file."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path

from efim_ls.completion.completer import Completer
from efim_ls.languages import language_of
from efim_ls.request import Request
from efim_ls.settings import Settings
from efim_ls.text.document import Document
from model_runtime.errors import ModelError


def show(place: str, as_json: bool, model: str) -> int:
    """Complete at `FILE:LINE:COLUMN`, both counted from 1; print the text, or a JSON object with text and costs."""
    path, line, column = place.rsplit(":", 2)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"efim-ls: {path} cannot be read as UTF-8 text: {error}", file=sys.stderr)
        return 2
    document = Document(Path(path).resolve().as_uri(), language_of(path), text)
    cursor = document.offset(int(line) - 1, int(column) - 1, "utf-32")
    try:
        completer = Completer.load(Settings(model=model, persist=False), lambda message, _: logging.debug(message))
    except ModelError as error:
        print(f"efim-ls: {error}", file=sys.stderr)
        return 1
    request = Request(document.uri, text, cursor, explicit=True, language=document.language)
    answer, notice = completer.complete(request, lambda: False), completer.notice(document.language)
    print(json.dumps(asdict(answer) | {"notice": notice}) if as_json else answer.text)
    if notice and not as_json:
        print(f"efim-ls: {notice}", file=sys.stderr)
    if not answer.text and not as_json:
        print(f"efim-ls: no suggestion: {answer.reason}", file=sys.stderr)
    return 0
