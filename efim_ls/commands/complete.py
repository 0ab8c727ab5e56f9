"""`efim-ls complete`: prints one completion at a place in a file."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from efim_ls.commands.arguments import check_model
from efim_ls.failures import Failure, FilePlace
from model_runtime.cancel import NEVER

HANG = 60.0  # seconds after which a daemon that does not answer is left alone


def show(place: FilePlace, as_json: bool, model: str) -> int:
    """Complete at a place; print the text, or a JSON object with text, costs and reason."""
    report = (None if model else _ask_daemon(place, as_json)) or _tell_here(place, as_json, model)
    answer, unasked, notice = report["answer"], report["unasked"], report["notice"]
    if report["moved"]:
        _say(report["moved"])
    if as_json:
        print(json.dumps(answer | {"notice": notice}))
        return 0
    if notice:
        _say(notice)
    if answer["text"]:
        print(answer["text"])
        if told := shown_while_typing(answer["text"], unasked):
            _say(told)
    else:
        _say(f"no suggestion: {answer['why']}")
    return 0


def _ask_daemon(place: FilePlace, as_json: bool) -> dict[str, Any] | None:
    """Let a daemon that runs complete at a place; return None if there is none."""
    if os.name != "posix":
        return None
    from efim_ls.daemon.address import Address, NoDaemon

    wanted = {"path": os.path.abspath(place.path), "line": place.line, "column": place.column, "is_asked": as_json}
    try:
        answer = Address.here().ask("complete", HANG, **wanted)
        report = json.loads(answer) if answer else None
    except (NoDaemon, OSError, ValueError):
        return None
    if report and "failure" in report:
        failure = Failure(report["failure"])
        failure.status = report["status"]
        raise failure
    return report


def _tell_here(place: FilePlace, as_json: bool, model: str) -> dict[str, Any]:
    """Complete at a place in this process."""
    check_model(model)
    from efim_ls.session import one_shot  # a model's runtime takes a while to import

    document = one_shot.read(place.path)
    cursor, moved = one_shot.cursor_at(document, place)
    completer = one_shot.load(model)
    request = one_shot.request_at(document, cursor, model, completer.tokenizers)
    return one_shot.answer_once(completer, request, as_json, NEVER) | {"moved": moved}


def shown_while_typing(text: str, unasked: dict[str, Any]) -> str:
    """Return what editors show while the user types, in a sentence; empty if that is the text that was printed."""
    shown, line = unasked["text"], unasked["text"].rpartition("\n")[2].strip()
    if unasked["why"]:
        return f"while you type, editors show nothing here: {unasked['why']}"
    if not text.startswith(shown):
        return f"while you type, editors show {shown!r} in place of this"
    told = f"while you type, editors show this up to {line!r}, since the rest is too unlikely ('suggestions')"
    return told if shown != text else ""


def _say(message: str) -> None:
    print(f"efim-ls: {message}", file=sys.stderr)
