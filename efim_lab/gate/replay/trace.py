"""Reads editing traces: a text and every edit made to it, keystroke by keystroke.

The format comes from https://github.com/josephg/editing-traces: JSON, plain or gzipped, with `startContent`
and `txns`, a list of `{"time": ISO-8601, "patches": [[position, deleted, inserted], ...]}`. Positions and
lengths count code points; the patches of one transaction apply in order.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, cast

from model_runtime.regular_files import MIB, read_regular

REST = 1.0  # seconds without an edit, after which the cursor is taken to rest
MOST_BYTES = 256 * MIB
GZIP_MAGIC = b"\x1f\x8b"


class TraceError(Exception):
    """A trace cannot be replayed; the message says why."""


class Patch(NamedTuple):
    """An edit at offset `at`: `deleted` code points replaced by `inserted`."""

    at: int
    deleted: int
    inserted: str


class Event(NamedTuple):
    """One transaction of the recording editor; `time` in seconds since the epoch."""

    time: float
    patches: list[Patch]


class Keystroke(NamedTuple):
    """The text and cursor of a request; `rested` is the text and cursor before it if the cursor rested there."""

    text: str
    cursor: int
    rested: tuple[str, int] | None = None


class Trace(NamedTuple):
    """A text and the edits made to it; every position has been checked to lie within the text at that time."""

    start: str
    events: list[Event]


def read(path: Path) -> Trace:
    """Read a trace file; TraceError names the error and its place."""
    raw = _load(path)
    if not isinstance(raw, dict):
        raise TraceError("not a trace: the top level is not an object")
    content = cast("dict[str, object]", raw)
    start, txns = content.get("startContent"), content.get("txns")
    if not isinstance(start, str):
        raise TraceError("startContent is missing or not a string")
    if not isinstance(txns, list):
        raise TraceError("txns is missing or not a list")
    events = [_event(number, txn) for number, txn in enumerate(cast("list[object]", txns))]
    _check_positions(len(start), events)
    return Trace(start, events)


def requests_after(event: Event) -> int | None:
    """Return the cursor at which an editor would request a completion after this event, or None.

    Typing one character and deleting text cause a request; pastes, replacements and edits in several places do not.
    """
    if len(event.patches) != 1:
        return None
    at, deleted, inserted = event.patches[0]
    asks = len(inserted) == 1 if deleted == 0 else not inserted
    return at + len(inserted) if asks else None


def part(whole: Trace, skip: int, limit: int | None) -> Trace:
    """Cut out what follows the first `skip` events, up to the event that causes the `limit`th request."""
    start = whole.start
    for event in whole.events[:skip]:
        start = _apply(start, event)
    events = whole.events[skip:]
    asking = [number for number, event in enumerate(events, 1) if requests_after(event) is not None]
    if limit is not None and limit < len(asking):
        events = events[: asking[limit - 1] if limit else 0]
    return Trace(start, events)


def rested_at(event: Event, last: Event | None) -> int | None:
    """Return where the cursor rested before an event that causes a request; None if it did not rest.

    A trace records edits only, no cursor moves; but after a second without an edit, the cursor is assumed to have
    been where the next edit is made.
    """
    if last is None or event.time - last.time < REST or requests_after(event) is None:
        return None
    at, deleted, _ = event.patches[0]
    return at + deleted


def keystrokes(recorded: Trace) -> Iterator[Keystroke]:
    """Yield every request of a trace."""
    text, last = recorded.start, None
    for event in recorded.events:
        before, text = text, _apply(text, event)
        at, cursor = rested_at(event, last), requests_after(event)
        if cursor is not None:
            yield Keystroke(text, cursor, None if at is None else (before, at))
        last = event


def final_text(recorded: Trace) -> str:
    """Return the text after the last event of a trace."""
    text = recorded.start
    for event in recorded.events:
        text = _apply(text, event)
    return text


def _apply(text: str, event: Event) -> str:
    for at, deleted, inserted in event.patches:
        text = text[:at] + inserted + text[at + deleted :]
    return text


def _load(path: Path) -> object:
    try:
        data = read_regular(path, MOST_BYTES)
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
        return json.loads(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(f"damaged gzip: {error}") from error
    except OSError as error:
        raise TraceError(error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"not JSON: {error}") from error


def _event(number: int, txn: object) -> Event:
    if not isinstance(txn, dict):
        raise TraceError(f"transaction {number} is not an object")
    content = cast("dict[str, object]", txn)
    patches = content.get("patches")
    if not isinstance(patches, list):
        raise TraceError(f"transaction {number}: patches is missing or not a list")
    checked = [_patch(number, raw) for raw in cast("list[object]", patches)]
    return Event(_seconds(number, content.get("time")), checked)


def _seconds(number: int, time: object) -> float:
    try:
        return datetime.fromisoformat(cast("str", time)).timestamp()
    except (TypeError, ValueError) as error:
        raise TraceError(f"transaction {number}: time {time!r} is not an ISO-8601 time") from error


def _patch(number: int, raw: object) -> Patch:
    match raw:
        case [int(at), int(deleted), str(inserted)] if at >= 0 and deleted >= 0:
            return Patch(at, deleted, inserted)
        case _:
            raise TraceError(f"transaction {number}: {str(raw)[:60]} is not [position, deleted, inserted]")


def _check_positions(length: int, events: list[Event]) -> None:
    for number, event in enumerate(events):
        for at, deleted, inserted in event.patches:
            if at + deleted > length:
                raise TraceError(f"transaction {number}: the edit at {at} ends beyond the text ({length} long)")
            length += len(inserted) - deleted
