"""The engine on another machine: sends prompts as they are, and reads answers token by token."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Generator
from contextlib import closing
from time import perf_counter
from typing import NamedTuple

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.engine.engine import EngineDescription, GenerateJob, Generation, PrepareJob, Reusable
from model_runtime.engine.sampler import Sampler
from model_runtime.errors import EngineError
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.answer import StreamedAnswer
from model_runtime.remote.connection import Connection, nonsense
from model_runtime.remote.dialects import Ask, Dialect, StreamPiece
from model_runtime.remote.identify import another_vocabulary, block_size, identify
from model_runtime.remote.setting import RemoteOptions

MOST_FRAMES = 64  # whose last prompts are remembered
BLOCK = 16  # tokens of a server's block where it does not say: vLLM's default


class RemoteFacts(NamedTuple):
    """What a server was found to be: its model, its most tokens, the tokens of a block (0: unknown), and its answers.

    `cached` of the prompt's `tokens` were not computed when the same prompt came again; `round_trip` is milliseconds.
    """

    kind: str
    model: str
    context: int
    block: int
    tokens: int
    cached: int
    round_trip: float


class RemoteEngine:
    """Generates on a server that a user named, with at most some requests under way. Used on any thread.

    What the server is, it is asked before the first prompt, and again after each failure.
    """

    def __init__(
        self,
        options: RemoteOptions,
        tokenizer: Tokenizer,
        capacity: int,
        ends: Collection[int] = (),
        languages: tuple[str, ...] = (),
    ) -> None:
        """Connect to nothing yet. A prompt with its answer has up to `capacity` tokens.

        `ends` end a text, as special tokens do. The model knows the `languages`.
        """
        self._capacity, self._languages = capacity, languages
        self._options, self._tokenizer = options, tokenizer
        self._ends = frozenset(tokenizer.special.values()) | frozenset(ends)
        self._sampler = Sampler(tokenizer, None, self._ends)
        self._connection = Connection(options.base, options.host)
        self._dialect: Dialect | None = None
        self._sent = OrderedDict[FrameId, Ids]()  # last prompts, the most recent last; changed under the lock
        self._slots = dict[FrameId, int]()  # likewise
        self._lock = threading.Lock()

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        """Complete the prompt; raises Cancelled once `cancel()` is true, EngineError if the server cannot answer."""
        dialect = self._ready(job.private, cancel)
        answer, known = StreamedAnswer(job, self._sampler), self.reusable(job.frame, job.prompt).reused
        slot = self._place(job.frame, job.prompt, dialect.served.slots)
        while not answer.is_over:
            before = answer.left
            over = self._read(
                dialect, answer, Ask(answer.ids, answer.left, slot, one_line=answer.wants_one_line), cancel
            )
            if over or answer.is_over:
                break
            if answer.left == before:  # the server named no token that spells the stub
                self._constrain(dialect, answer, slot, cancel)
        return answer.generation(known)

    def prepare(self, job: PrepareJob, cancel: Cancel) -> bool:
        """Have the server compute a prompt until `cancel()` is true; return whether it has.

        Raises EngineError if it cannot.
        """
        try:
            dialect = self._ready(job.private, cancel)
            slot = self._place(job.frame, job.prompt, dialect.served.slots)
            for _ in self._ask(dialect, Ask(job.prompt.ids, 0, slot), cancel):
                pass
        except Cancelled:
            return False
        return True

    def reusable(self, frame: FrameId, prompt: Prompt) -> Reusable:
        """Estimate the tokens that the server has from the frame's last request, in whole blocks."""
        with self._lock:
            sent = self._sent.get(frame)
        common = 0 if sent is None else common_prefix(sent, prompt.ids)
        return Reusable(common // BLOCK * BLOCK, 0, 0)

    def approximate(self, frame: FrameId, prompt: Prompt) -> int:
        """Return all tokens: reused rows of a server may differ in the last bits from recomputed ones."""
        return prompt.tokens

    def forget(self, document: str) -> None:
        """Forget the requests of a document's frames."""
        with self._lock:
            for frame in [each for each in self._sent if each.document == document]:
                del self._sent[frame]
                self._slots.pop(frame, None)

    def describe(self) -> EngineDescription:
        """Return the server, and its model once that is known."""
        served = self._dialect.served if self._dialect else None
        return EngineDescription(
            model=served.model if served else self._options.model,
            languages=self._languages,
            device=self._options.host,
            device_reason="the setting 'engine' names it",
            decoder=served.kind if served else self._options.kind,
            context=served.context if served else 0,
        )

    def close(self, seconds: float) -> None:
        """Close the connections."""
        self._connection.close()

    def probe(self, job: GenerateJob, cancel: Cancel) -> RemoteFacts:
        """Send a prompt twice and return what the server was found to be; raises as `generate` does."""
        self.generate(job, cancel)
        began = perf_counter()
        again = self.generate(job, cancel)
        round_trip = (perf_counter() - began) * 1e3
        dialect = self._ready(job.private, cancel)
        block = block_size(self._connection, cancel) if dialect.served.kind == "vllm" else 0
        served, tokens = dialect.served, job.prompt.tokens
        return RemoteFacts(served.kind, served.model, served.context, block, tokens, again.reused, round_trip)

    def _ready(self, private: bool, cancel: Cancel) -> Dialect:
        """Return the server's dialect, and identify the server if it is not known."""
        host = self._options.host
        if private and not self._options.private:
            raise EngineError(
                f"the text is private, and {host} is another machine: set 'private' to true in the setting 'engine' "
                "to send it"
            )
        if (dialect := self._dialect) is None:
            dialect = identify(self._connection, self._options, self._tokenizer, self._ends, cancel)
            if 0 < dialect.served.context < self._capacity:
                raise EngineError(
                    f"{host} takes {dialect.served.context} tokens, and prompts have up to {self._capacity}: start "
                    "the server with a longer context, or lower head_tokens"
                )
            self._dialect = dialect
        return dialect

    def _place(self, frame: FrameId, prompt: Prompt, slots: int) -> int:
        """Note a frame's request, and return its slot: a free slot, or the slot of the frame used longest ago."""
        with self._lock:
            self._sent[frame] = prompt.ids
            self._sent.move_to_end(frame)
            if len(self._sent) > MOST_FRAMES:
                self._slots.pop(self._sent.popitem(last=False)[0], None)
            if frame not in self._slots and slots > 0:
                free = set(range(min(slots, MOST_FRAMES))) - set(self._slots.values())
                oldest = next((each for each in self._sent if each in self._slots), frame)
                self._slots[frame] = min(free) if free else self._slots.pop(oldest)
            return self._slots.get(frame, 0)

    def _constrain(self, dialect: Dialect, answer: StreamedAnswer, slot: int, cancel: Cancel) -> None:
        """Ask for one token of those that spell the stub; take ours if the server cannot be held to them."""
        before, stub = answer.left, answer.stub
        allowed = self._tokenizer.vocabulary.fitting(stub)
        self._read(dialect, answer, Ask(answer.ids, 1, slot, allowed), cancel)
        if answer.left == before and not answer.is_over:
            spelled = self._sampler.token_bytes
            tokens: list[int] = allowed.tolist()
            parts = [token for token in tokens if stub.startswith(spelled[token])]
            answer.append_own(max(parts, key=lambda token: len(spelled[token])))

    def _read(self, dialect: Dialect, answer: StreamedAnswer, ask: Ask, cancel: Cancel) -> bool:
        """Take what answers a request; return whether the server has come to an end of the text."""
        answer.begin()
        goes_on, ended = True, False
        with closing(self._ask(dialect, ask, cancel)) as pieces:
            for piece in pieces:
                answer.count(piece)
                try:
                    goes_on = goes_on and answer.take(piece)
                except ValueError:
                    self._dialect = None
                    raise another_vocabulary(self._options.host, dialect) from None
                ended = ended or (piece.ended and answer.is_over)
                if not goes_on and not ended:  # else what follows are costs
                    return False
        return ended or (goes_on and ask.allowed is None)

    def _ask(self, dialect: Dialect, ask: Ask, cancel: Cancel) -> Generator[StreamPiece]:
        """Yield the pieces of an answer as they come; after a failure the server is identified again."""
        try:
            with self._connection.stream(dialect.path, dialect.body(ask), cancel) as events:
                for event in events:
                    yield dialect.read(event).checked()
        except EngineError:
            self._dialect = None  # it may come back with another model
            raise
        except (KeyError, TypeError, IndexError, ValueError, AttributeError, ArithmeticError):
            self._dialect = None
            raise nonsense(self._options.host) from None
