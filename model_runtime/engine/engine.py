"""What answers prompts: the protocols of engines, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from model_runtime.cancel import Cancel
from model_runtime.engine.decode import DecodeStats
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.output import TextProbability
from model_runtime.engine.sampler import Choice
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.prompt import Prompt
from model_runtime.sequence_key import NOTHING_COMMITTED, CommittedParts


class GenerateJob(NamedTuple):
    """A frame's prompt, to be completed greedily by at most `limit` tokens, up to where the rule ends it.

    `expected` tokens are likely; they never change the answer. `wanted` is the most texts to return: the answer, and
    alternatives to it, which depart from its first line. With `better_line`, the answer's first line is the likeliest
    of a few, and greedy decoding continues after it.

    The prompt's tokens must not leave this machine if they are `private`. Its history and counts, which are of other
    documents, never may.
    """

    frame: FrameId
    prompt: Prompt
    rule: Rule
    limit: int
    expected: Ids = NO_DRAFT
    wanted: int = 1
    better_line: bool = False
    private: bool = True


class PrepareJob(NamedTuple):
    """A frame's prompt, to be computed ahead of need; `private` is as in `GenerateJob`."""

    frame: FrameId
    prompt: Prompt
    private: bool = True


@dataclass(frozen=True)
class Generation:
    """New text after the prompt's typed text, and its costs; times in milliseconds.

    Of the `reused` tokens, `fetched` came from storage, and `approximate` may differ slightly from what the model
    would compute now. `prefill_ms` runs to the first new token. `complete` is false if the limit of new tokens cut
    the text off. `choices` are the new tokens; `confidence` is the joint probability of the first line's tokens,
    `likelihood` the joint probability of each beginning of the text. `others` are the texts of alternatives, the
    likeliest first line first.
    """

    text: str
    choices: tuple[Choice, ...]
    confidence: float
    likelihood: TextProbability
    reused: int
    fetched: int
    approximate: int
    stats: DecodeStats
    restore_ms: float
    prefill_ms: float
    decode_ms: float
    complete: bool
    others: tuple[str, ...] = ()
    alternatives_ms: float = 0.0


class Reusable(NamedTuple):
    """Reused tokens of a prompt, with its excerpts; how many are to be fetched; how many were prefetched."""

    reused: int
    fetched: int
    ahead: int


class SavedFrame(NamedTuple):
    """A frame to be saved, with its prompt.

    `private` are the documents of the prompt (its own file and its excerpts' files) that must not reach a disk. Only
    `committed` text may reach other machines.
    """

    frame: FrameId
    prompt: Prompt
    private: frozenset[str]
    committed: CommittedParts = NOTHING_COMMITTED


class EngineStatistics(NamedTuple):
    """Prefetched tokens, how many were evicted unused, and usage per tier."""

    prefetched: int = 0
    wasted: int = 0
    tiers: Sequence[dict[str, object]] = ()


@dataclass(frozen=True)
class EngineDescription:
    """The model, its device and formats, with the reasons; an engine leaves unknown fields empty.

    `revision` is the commit of a hub model, else empty. `languages` are those the model says it knows, if it does.
    `options` says which of those that settings ask for are on or off, and why.
    """

    model: str = ""
    revision: str = ""
    languages: tuple[str, ...] = ()
    parameters: int = 0
    device: str = ""
    device_reason: str = ""
    weights: str = ""
    decoder: str = ""
    decoder_reason: str = ""
    attention: str = ""
    attention_reason: str = ""
    context: int = 0
    arenas: int = 0
    threads: int = 0
    threads_reason: str = ""
    ngrams: bool = False
    ngrams_reason: str = ""
    options: str = ""


class Engine(Protocol):
    """Completes prompts, in this process or on another machine. On the engine thread, unless a method says otherwise.

    No method raises for what happens to files or connections, except EngineError where that is named. The
    documents of all clients share the engine. An engine elsewhere may reuse and prepare nothing, and ignore
    `better_line`.
    """

    def generate(self, job: GenerateJob, cancel: Cancel, /) -> Generation:
        """Complete a prompt; raises Cancelled soon after `cancel()` is true, EngineError if it cannot answer now.

        It is asked again for the next prompt, whether this one succeeded or not.
        """
        ...

    def prepare(self, job: PrepareJob, cancel: Cancel, /) -> bool:
        """Compute a prompt ahead of need until `cancel()` is true; return whether nothing is left to do.

        Raises EngineError if it cannot.
        """
        ...

    def reusable(self, frame: FrameId, prompt: Prompt, /) -> Reusable:
        """Count the tokens of a frame's prompt that are already computed or stored; changes nothing."""
        ...

    def approximate(self, frame: FrameId, prompt: Prompt, /) -> int:
        """Count the tokens of a prompt, all of them reused, that may differ from what would be computed now."""
        ...

    def describe(self) -> EngineDescription:
        """Return what runs where, and why. On any thread."""
        ...

    def close(self, seconds: float, /) -> None:
        """End; saved rows are written for up to `seconds`."""
        ...


class KeepingEngine(Engine, Protocol):
    """An engine that keeps the keys and values of frames here, in memory and in storage."""

    def save(self, document: str, frames: Sequence[SavedFrame], cancel: Cancel, /) -> bool:
        """Save the computed rows of a document's frames, the most recent last; return false if stopped.

        Rows that rest on private documents reach no disk, and rows saved earlier are removed.
        """
        ...

    def release(self, document: str, /) -> None:
        """Let the memory of a document's frames be reused first; `document` is the name in the frames."""
        ...

    def rest(self, seconds: float, /) -> None:
        """Give back the memory of frames unused for `seconds`, except the last answer's.

        Frames that were saved are fetched when they are asked for again.
        """
        ...

    def share_memory(self, parts: int, /) -> None:
        """Use one of `parts` equal parts of the memory for keys and values, at least one frame's.

        Other models have the other parts. Evicted frames are computed or fetched again.
        """
        ...

    def statistics(self) -> EngineStatistics:
        """Return the counts since the start. On any thread."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait up to `seconds` until all that was saved is written; return whether it is. On any thread."""
        ...
