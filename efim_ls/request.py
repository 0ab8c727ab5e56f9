"""Completion requests, answers and costs: plain values that server and clients share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from model_runtime.counts.snapshot import CountsView
from model_runtime.prompt.excerpts import Excerpts

# How sure the model must be of what is shown, in words: what that means depends on the place.
Preset = Literal["more", "balanced", "sure"]
FrameKind = Literal["kept", "restored", "new"]
Reason = Literal[
    "disabled", "workspace off", "language off", "file off", "secret file", "file too large", "loading", "no model",
    "unknown document", "out of step", "binary text", "line too long", "low confidence", "empty", "duplicate",
    "no fit", "no phrase", "on request", "no answer", "superseded", "cancelled", "error",
]  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A completion request: an immutable snapshot of the document and the cursor in it.

    `cursor` counts code points. `explicit` is true if the user asked by key, false if typing triggered the request.
    `others` are the texts of other open documents in the same language, most recently used last. `count` is the most
    suggestions to return; what is shown of each has a probability of `least` (0 to 1, or by the place) or more.
    `language` is LSP's name of the document's language, empty if it has none. `counts` are those of the repository,
    without the document and the other texts; None if there are none. `excerpts` of other files are offered to the
    prompt, and what it shows of `excluded_files` (real paths) must go; None where prompts show no such text.
    """

    uri: str
    text: str
    cursor: int
    explicit: bool = False
    others: tuple[str, ...] = ()
    count: int = 1
    least: float | Preset = 0.0
    language: str = ""
    counts: CountsView | None = None
    excerpts: Excerpts | None = None
    excluded_files: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Milliseconds:
    """Wall time of each stage; `prefill` ends with the first new token."""

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
    """The costs of one answer, in tokens.

    `recomputed` tokens went through the model before the first new token. Of the `reused` ones, `fetched` came from
    memory or disk, `ahead` were computed before they were needed, and `approximate` may differ slightly from what the
    model would compute now (only if a setting allows it, or on a GPU). Of the `new_tokens`, `known` were computed for
    an earlier suggestion; decoding the others took `passes`, in which `accepted` of the `drafted` tokens proved
    right. `signatures`, `imports` and `similar` are what the prompt showed of other files.
    """

    frame: FrameKind = "new"
    head: int = 0
    tail: int = 0
    typed: int = 0
    reused: int = 0
    fetched: int = 0
    ahead: int = 0
    approximate: int = 0
    recomputed: int = 0
    new_tokens: int = 0
    known: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    signatures: int = 0
    imports: int = 0
    similar: int = 0
    ms: Milliseconds = field(default_factory=Milliseconds)


@dataclass(frozen=True)
class Ahead:
    """Tokens computed by prefetching, how many of them were discarded unused, and the milliseconds that took."""

    tokens: int = 0
    wasted: int = 0
    ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Answer:
    """The suggestion to insert at the cursor, its costs and, if `text` is empty, the reason.

    `alternatives` are other suggestions for the same place, most likely first. `confidence` is the model's
    probability of `text` or, if that is empty because it is too unlikely, of its first word. `hidden` follows `text`
    in the suggestion and is too unlikely to be shown; `words` are the pieces of both, each with its probability once
    those before it are right. `least` is the probability that was needed at this place, None where none was.
    `cause` says why an engine gave no answer.
    """

    text: str
    costs: Costs = Costs()
    reason: Reason | None = None
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None
    hidden: str = ""
    words: tuple[tuple[str, float], ...] = ()
    least: float | None = None
    cause: str = ""


@dataclass(frozen=True)
class Status:
    """Whether completions are available, and a sentence for users.

    `fallback` says why the embedded model is used in place of the named one; it is empty if it is not.
    """

    state: Literal["loading", "ready", "error", "off"]
    message: str
    fallback: str = ""
