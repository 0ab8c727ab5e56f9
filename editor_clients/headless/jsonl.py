"""Completions over JSON Lines on stdin and stdout, for scripts and for editors without LSP.

A request is one object a line with an `op`, any `id`, and what the op needs; each gets
one answer line with the same `id`, in order. Offsets (`at`, `delete`, `length`) count code points.

    {"id": 1, "op": "open", "path": "a.py", "text": "..."}     text: what the file holds if left out
    {"id": 2, "op": "edit", "path": "a.py", "at": 120, "delete": 0, "insert": "x"}
    {"id": 3, "op": "complete", "path": "a.py", "at": 121}     -> {"id": 3, "text", "costs", "reason", "confidence"}
    {"id": 4, "op": "accept", "path": "a.py", "length": 5}     length: all of the suggestion if left out
    {"id": 5, "op": "explain", "path": "a.py", "at": 121}      the prompt of a completion there, and its costs
    {"id": 6, "op": "move", "path": "a.py", "at": 40}          the cursor moved there without an edit
    {"id": 7, "op": "focus", "path": "a.py"}                   this document got the focus
    {"id": 8, "op": "settle"}                                  answered once the server has no work left
    {"id": 9, "op": "stats"}
    {"id": 10, "op": "next_edit", "path": "a.py", "at": 40}    -> {"id": 10, "edit"}, in the words of the op edit
    {"id": 11, "op": "accept_edit"}                            makes the edit that was offered last
    {"id": 12, "op": "refuse_edit"}                            it is not offered again
    {"id": 13, "op": "close", "path": "a.py"}

A request that cannot be served is answered by `{"id": ..., "error": {"code": ..., "message": ...}}`, and the
next one is served as if nothing had been.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from math import isfinite
from typing import NoReturn, cast

from editor_clients.headless.client import editor
from editor_clients.headless.connection import ServerDied, ServerError
from editor_clients.headless.document import OutOfRange
from editor_clients.headless.ops import Answer, Refused, Session


def serve(settings: Mapping[str, object]) -> int:
    """Serve requests until stdin ends or a signal comes."""
    try:
        asyncio.run(_serve(settings))
    except BrokenPipeError:
        # The reader has gone; without this the interpreter's last flush would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


async def _serve(settings: Mapping[str, object]) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        async with editor(settings) as headless:
            session = Session(headless)
            async for line in _stdin_lines():
                _print(await _answer(session, line))


async def _answer(session: Session, line: bytes) -> Answer:
    try:
        request = json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return _error(None, "bad-json", str(error))
    if not isinstance(request, dict):
        return _error(None, "bad-request", "a request is an object")
    number = cast("Answer", request).get("id")
    try:
        return {"id": number} | await session.answer(cast("Answer", request))
    except Refused as refused:
        return _error(number, refused.code, str(refused))
    except OutOfRange as error:
        return _error(number, "out-of-range", str(error))
    except ServerDied as death:
        _print(_error(number, "server-died", str(death)))
        raise
    except ServerError as error:
        return _error(number, "server-error", str(error))


def _refuse(_: str) -> NoReturn:
    raise ValueError("the request has a number that JSON does not have: leave it out")


def _finite(digits: str) -> float:
    """Return a number; raises ValueError for a number that JSON could not repeat, as an id."""
    number = float(digits)
    return number if isfinite(number) else _refuse(digits)


def _print(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


def _error(number: object, code: str, message: str) -> Answer:
    return {"id": number, "error": {"code": code, "message": message}}


async def _stdin_lines() -> AsyncIterator[bytes]:
    """Yield stdin's lines, read on a daemon thread so that a signal need not wait for the next line."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with open(0, "rb", closefd=False) as stdin, suppress(RuntimeError):  # the loop may be closed by now
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line
