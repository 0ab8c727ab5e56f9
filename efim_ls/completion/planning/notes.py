"""Frames as notes on documents, so that a restarted server plans as the previous one did."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from efim_ls.completion.planning.planner import Plan
from efim_ls.completion.planning.window import Budget


def note_of(uri: str, plans: Iterable[Plan], budget: Budget) -> bytes:
    """Return a document's frames as the note that is stored with the blocks."""
    frames = [[plan.start, plan.head, plan.typed, plan.tail] for plan in plans]
    return json.dumps({"uri": uri, "budget": [budget.head, budget.tail], "frames": frames}).encode()


def plans_of(note: bytes, budget: Budget) -> list[Plan]:
    """Return the plans in a note; none if it is for another budget or from another version."""
    match _content(note):
        case {"budget": [budget.head, budget.tail], "frames": [*frames]}:
            return [plan for frame in frames for plan in _plan(frame)]
        case _:
            return []


def uri_of(note: bytes) -> str | None:
    """Return the URI of a note's document, None if the note is from another version."""
    match _content(note):
        case {"uri": str(uri)}:
            return uri
        case _:
            return None


def _content(note: bytes) -> Any:
    try:
        return json.loads(note)
    except (ValueError, RecursionError):
        return None


def _plan(frame: object) -> list[Plan]:
    match frame:
        case [int(start), str(head), str(typed), str(tail)]:
            return [Plan("restored", 0, start, head, typed, "", tail)]
        case _:
            return []
