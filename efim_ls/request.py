"""Completion requests, answers and costs: plain values that server and clients share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from model_runtime.counts.snapshot import CountsView
from model_runtime.prompt.context import NO_CONTEXT, PromptContext

# How sure the model must be to show a suggestion, in words; the thresholds depend on the place.
Preset = Literal["more", "balanced", "sure"]
FrameKind = Literal["kept", "restored", "new"]
Reason = Literal[
    "disabled", "language off", "file off", "secret file", "file too large", "loading", "no model",
    "unknown document", "out of step", "binary text", "line too long", "low confidence", "too little",
    "unknown word", "empty", "duplicate", "no fit", "no phrase", "on request", "no answer", "superseded",
    "cancelled", "error",
]  # fmt: skip
NameKind = Literal["function", "class", "module", "value"]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Names:
    """Names with their owner; if it `is_open`, there may be more."""

    kinds: Mapping[str, NameKind]
    is_open: bool

    def may_have(self, name: str) -> bool:
        """Return whether a name can be among them; of private ones nothing is known."""
        return self.is_open or name in self.kinds or name.startswith("_")

    def without(self, others: Collection[str]) -> Names:
        """Return the other names."""
        kinds = {name: kind for name, kind in self.kinds.items() if name not in others}
        return replace(self, kinds=kinds) if others else self

    def beginning_with(self, stub: str) -> list[str]:
        """Return the known names that begin so, in their order in the source."""
        return [name for name in self.kinds if name.startswith(stub)]


class Expected(NamedTuple):
    """What the word at a place must be one of: `stub` of it is typed.

    For a `keyword`, only if the word is followed by `=`: any expression may stand there. The names belong to an
    `owner`, a dotted name, empty if they are modules themselves. `places` says in plain words where the first part of
    a dotted name lies.
    """

    kind: Literal["module", "name", "attribute", "keyword"]
    stub: str
    names: Names
    owner: str = ""
    places: Mapping[str, str] = {}
    lister: str = ""  # the editor's server that lists them, empty if this server knows them itself

    def source(self, name: str) -> str:
        """Return in plain words where one of the names is from."""
        if self.lister:
            return f"listed by {self.lister}"
        place = self.places.get((self.owner or name).partition(".")[0])
        return f"from {' in '.join(filter(None, (self.owner, place)))}"


@dataclass(frozen=True)
class ListedNames:
    """The names that may stand at the character `start`, where a word begins.

    Another server of the editor lists them, the `lister`; without one, they are the keywords of the `owner` in the
    workspace. They are `kind`s of names; a `keyword` is followed by `=`.
    """

    start: int
    kind: Literal["attribute", "keyword"]
    names: Names
    lister: str = ""
    owner: str = ""

    def expected(self, text: str, cursor: int) -> Expected | None:
        """Return what code expects at a place, None if the word at it does not begin where these names are listed."""
        stub = text[self.start : cursor]
        is_here = cursor >= self.start and (not stub or _WORD.fullmatch(stub) is not None)
        places = {self.owner: "the workspace"}
        return Expected(self.kind, stub, self.names, self.owner, places, self.lister) if is_here else None


class KnownModules(Protocol):
    """The names of modules at one time. Used on the threads of a client's models; it reads nothing.

    Two views of one table and `version` give the same answers.
    """

    @property
    def version(self) -> int:
        """Grows whenever more is known."""
        ...

    def has(self, word: str) -> bool:
        """Return whether any module has a name like this, or a class or function in it."""
        ...

    def expected(self, uri: str, text: str, cursor: int) -> Expected | None:
        """Return what code expects at a place in a document, None if that is anything or unknown.

        The place must be in code: not in a string or comment.
        """
        ...


class Part(NamedTuple):
    """A part of a document in another language than the rest, and the code of its program `above` and `below` it.

    It begins at the character `start`, and `behind` characters of the document follow it: edits in it change neither.
    Who knows the language `within`, the document's, knows the part, too. What `end` matches would end it.
    """

    language: str
    start: int = 0
    behind: int = 0
    above: str = ""
    below: str = ""
    within: str = ""
    end: re.Pattern[str] | None = None

    def code(self, text: str, cursor: int) -> tuple[str, int]:
        """Return the code of its program without the rest of the document, and the cursor in it."""
        code = text[self.start : len(text) - self.behind]
        return f"{self.above}{code}{self.below}", len(self.above) + cursor - self.start


@dataclass(frozen=True)
class Request:
    """A completion request: an immutable snapshot of the document and the cursor in it.

    `cursor` counts code points. `explicit` is true if the user asked by key, false if typing triggered the request.
    `others` are the texts of other open documents in the same language, most recently used last. `count` is the most
    suggestions to return; the shown part of each has a probability of `least` (0 to 1, or by the place) or more.
    `language` is LSP's name of the language at the cursor, empty if it has none: the document's, unless the cursor is
    in a `part` in another. `counts` are the repository's, without the document and the other texts; None if there are
    none. The `context`, text of other files, is offered to the prompt, and text of `excluded_files` (real paths) must
    leave it. `modules` are those that the document may import, with the names that are known to be in them, if not
    None. `listed` are names that another server lists near the cursor.
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
    context: PromptContext = NO_CONTEXT
    excluded_files: frozenset[str] = frozenset()
    modules: KnownModules | None = None
    listed: ListedNames | None = None
    part: Part | None = None

    def at_part(self, part: Part | None) -> Request:
        """Return a request in its document's own language as one in the part at its cursor, if it is in any."""
        return replace(self, language=part.language, part=part) if part else self


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
    right. `others` are tokens of the parts with text of other files.
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
    others: int = 0
    ms: Milliseconds = field(default_factory=Milliseconds)


@dataclass(frozen=True, eq=False)
class Upcoming:
    """A place that may be asked about next, for what the answer needs to be computed ahead; it equals itself alone.

    It is where the user will be once a suggestion is `accepted`, where the cursor has `rested` and no suggestion is
    shown, so that the prompt takes up the context that is offered, or anywhere in a document just `opened`.
    """

    request: Request
    because: Literal["accepted", "rested", "opened"] = "accepted"


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
    those before it are right. `least` is the probability that was needed at this place, None where none was. `cause`
    says why an engine gave no answer. `at_rest`: it is shown only after a pause in typing, not being sure enough
    before. `source` says in plain words where `text` is from if the model has not guessed it. `better` is the surer
    of this answer and a coming answer from a model elsewhere.
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
    at_rest: bool = False
    source: str = ""
    better: BetterAnswer | None = field(default=None, compare=False, repr=False)


class BetterAnswer(Future[Answer]):
    """The surer of a given answer and a coming answer from elsewhere, and whether it replaced the first."""

    is_shown = False


@dataclass(frozen=True)
class Status:
    """Whether completions are available, and a sentence for users.

    `fallback` says why the embedded model is used in place of the named one; it is empty if it is not.
    """

    state: Literal["loading", "ready", "error", "off"]
    message: str
    fallback: str = ""
