"""What a completion is asked for with, and what it answers: plain values, shared by server and clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FrameKind = Literal["kept", "restored", "new"]
Reason = Literal[
    "disabled", "workspace off", "language off", "file off", "secret file", "file too large", "loading", "no model",
    "unknown document", "binary text", "line too long", "low confidence", "empty", "duplicate", "no fit",
    "superseded", "cancelled", "error",
]  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One completion asked for: an immutable snapshot of the document and the place in it.

    `cursor` counts code points. `explicit` is true when the user asked by a key, false when typing did. `others` are
    texts of other open documents in its language, the one used last at the end. At most `count` suggestions are
    wanted, and none that the model is less sure of than `least`, 0 to 1.
    """

    uri: str
    text: str
    cursor: int
    explicit: bool = False
    others: tuple[str, ...] = ()
    count: int = 1
    least: float = 0.0


@dataclass(frozen=True)
class Milliseconds:
    """Wall time of each stage; `prefill` ends where the first new token is known."""

    plan: float = 0.0
    tokenize: float = 0.0
    restore: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    alternatives: float = 0.0
    postprocess: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class Costs:
    """What one answer cost, in tokens.

    `recomputed` went through the model before the first new token; of the `reused`, `fetched` came from memory or
    disk, and `approximate` are not quite what the model computes (only where a setting allows it). Of the
    `new_tokens`, `known` were computed already, for an earlier suggestion; `passes` brought the others, where
    `accepted` of `drafted` tokens came true.
    """

    frame: FrameKind = "new"
    head: int = 0
    tail: int = 0
    typed: int = 0
    reused: int = 0
    fetched: int = 0
    approximate: int = 0
    recomputed: int = 0
    new_tokens: int = 0
    known: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    ms: Milliseconds = field(default_factory=Milliseconds)


@dataclass(frozen=True)
class Ahead:
    """Tokens computed ahead of need, those of them that were given up unused, and milliseconds that it all took."""

    tokens: int = 0
    wasted: int = 0
    ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Answer:
    """The suggestion to insert at the cursor, what it cost and, where `text` is empty, why.

    `alternatives` are others for the same place, the likeliest first, where several are wanted. `confidence` is the
    probability that the model gives the suggestion's first line, also where it is too low to suggest anything.
    """

    text: str
    costs: Costs = Costs()
    reason: Reason | None = None
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True)
class Status:
    """Whether completions can be had, and a sentence for people."""

    state: Literal["loading", "ready", "error", "off"]
    message: str
