"""Engines that tell what they did, and a decoder that says what it is told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from model_runtime.cancel import Cancel
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, Counts, CountsView
from model_runtime.decoder.any_decoder import AnyDecoder, Span, TopTokens
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.decoder.quantization import Format
from model_runtime.decoder.streams import torch_decoder
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.engine import GenerateJob, Generation, PrepareJob
from model_runtime.engine.local import EngineParts, LocalEngine
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.engine.stops import Rule, StopRule
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.pool import MIN_COPIED, FrameId, Pool
from model_runtime.kv.storage import KvStorage
from model_runtime.logits import Logits
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.composition.composer import Composer, ComposingStep

ONE_LINE = StopRule(multiline=False, indent=0, max_lines=1)
FACTOR, BONUS = 2.0, 4.0  # of logits, and of those of tokens that end a line
ENDLESS = StopRule(multiline=True, indent=0, max_lines=10_000)
SHARES = (0.05, 0.15, 0.35, 0.55, 0.7, 0.8, 0.85, 0.9)
CACHE = Ngrams(SHARES, half_life=500.0, memory_shares=(0.0, 0.0, *SHARES[2:]))


def decoder_of(folder: Path, form: Format = "fp32") -> Decoder:
    """The decoder of a checkpoint folder."""
    config = read_config(folder)
    return torch_decoder(config, read_weights(folder, config), form)


def quick_decoder_of(folder: Path) -> AnyDecoder:
    """The decoder of a checkpoint folder, compiled where it can be: for tests of what is built on a decoder."""
    config = read_config(folder)
    if native_missing(config) is None:
        return NativeDecoder(config, read_weights(folder, config), "fp16", threads=1)
    return decoder_of(folder)


def fetched(logits: Logits) -> np.ndarray:
    """Logits as an array: itself, or a tensor's numbers in the host's memory."""
    return logits if isinstance(logits, np.ndarray) else logits.cpu().numpy()


@dataclass
class Log:
    """What an engine did in one call of `generate`, in order: "asked", or the number of rows of a pass.

    `gaps` tell of each token that the model was asked for by how much its score exceeds the next one's.
    """

    prompt: Prompt | None = None
    arena: Arena | None = None
    made: Generation | None = None
    gaps: list[float] = field(default_factory=list)
    events: list[str | int] = field(default_factory=list)

    @property
    def passes(self) -> list[int]:
        """Rows of each forward pass."""
        return [event for event in self.events if isinstance(event, int)]

    @property
    def tokens(self) -> list[int]:
        """What was chosen after the prompt."""
        return [choice.token for choice in self.made.choices] if self.made else []


class Watched(LocalEngine):
    """An engine over a given decoder and empty arenas that keeps a log of its last call."""

    def __init__(
        self,
        decoder: AnyDecoder,
        tokenizer: Tokenizer,
        capacity: int = 512,
        arenas: int = 2,
        cache: Ngrams | None = None,
        storage: KvStorage | None = None,
        line_tokens: int = 0,
        composer: Composer | None = None,
    ) -> None:
        self.log, self.model, self.tokenizer = Log(), decoder, tokenizer
        self.pool = WatchedPool(decoder.config, capacity, arenas, self)
        self.context = context = DecodeContext.of(_Watch(decoder, self), tokenizer, cache)
        context.sampler = self.sampler = _Listening(tokenizer, cache, context.sampler.ends, self)
        steps = (ComposingStep(composer, self.pool),) if composer else ()
        self.parts = EngineParts(context, self.pool, capacity, line_tokens, steps=steps)
        super().__init__(self.parts, storage)

    @property
    def prefetched(self) -> int:
        """Tokens computed ahead of need."""
        return self.statistics().prefetched

    @property
    def wasted(self) -> int:
        """Those of them that were dropped before an answer needed them."""
        return self.statistics().wasted

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        """As an engine does."""
        log = self.log = Log(job.prompt)
        log.made = super().generate(job, self._asked(cancel))
        return log.made

    def prepare(self, job: PrepareJob, cancel: Cancel) -> bool:
        """As an engine does."""
        self.log = Log()
        return super().prepare(job, self._asked(cancel))

    def others(
        self, prompt: Prompt, chosen: Sequence[Choice], rule: Rule, limit: int, count: int, cancel: Cancel
    ) -> list[str]:
        """The alternatives to an answer; the log's events are those of finding them."""
        self.log.events.clear()
        return self._alternatives.generate(prompt, chosen, rule, limit, count, self._asked(cancel))

    def _asked(self, cancel: Cancel) -> Cancel:
        def asked() -> bool:
            self.log.events.append("asked")
            return cancel()

        return Cancel(asked)


class _Listening(Sampler):
    def __init__(self, tokenizer: Tokenizer, cache: Ngrams | None, ends: Collection[int], engine: Watched) -> None:
        super().__init__(tokenizer, cache, ends)
        self._engine = engine

    def pick(
        self,
        logits: Logits,
        history: Ids,
        stub: bytes,
        top: TopTokens | None = None,
        counts: CountsView | None = None,
    ) -> Choice:
        choice = super().pick(logits, history, stub, top, counts)
        scores = fetched(logits)
        others = scores.copy()
        others[choice.token] = -np.inf
        runner_up = super().pick(others, history, stub, counts=counts).token
        self._engine.log.gaps.append(float(scores[choice.token] - others[runner_up]))
        return choice


class _Watch(Decoder):
    def __init__(self, decoder: AnyDecoder, engine: Watched) -> None:
        self.config = decoder.config
        self._decoder, self._engine = decoder, engine

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> Logits:  # pyright: ignore
        self._engine.log.events.append(len(ids))
        return self._decoder.forward(ids, arena, rows)

    def forward_spans(self, spans: Sequence[Span]) -> Logits:  # pyright: ignore
        self._engine.log.events.append(sum(len(span.ids) for span in spans))
        return self._decoder.forward_spans(spans)


class WatchedPool(Pool[Arena]):
    """A pool that tells what it `made`, and the engine's log which arena a frame has."""

    def __init__(self, config: ModelConfig, capacity: int, size: int, engine: Watched) -> None:
        super().__init__(self._watched_arena, size)
        self.made = list[Arena]()
        self._config, self._capacity, self._engine = config, capacity, engine

    def scratch(self) -> Arena:
        """An arena as the pool makes them, which it does not lend."""
        return DenseArena(self._config, self._capacity)

    def _watched_arena(self) -> Arena:
        self.made.append(self.scratch())
        return self.made[-1]

    def acquire(self, owner: FrameId, key: SequenceKey, min_copied: int = MIN_COPIED) -> Arena:
        arena = super().acquire(owner, key, min_copied)
        if owner.frame >= 0:
            self._engine.log.arena = arena
        return arena


class Surer(Decoder):
    """A decoder that is as sure of its tokens as a trained one, and ends lines; a random one does neither."""

    def __init__(self, decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
        self.config, self._decoder = decoder.config, decoder
        ends = [BONUS * (b"\n" in spelled) for spelled in tokenizer.token_bytes]
        self._bonus = torch.zeros(decoder.config.vocab)
        self._bonus[: len(ends)] = torch.tensor(ends)

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """As the decoder does, but for the logits."""
        return torch.as_tensor(self._decoder.forward(ids, arena, rows)) * FACTOR + self._bonus

    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """The same for several arenas."""
        return torch.as_tensor(self._decoder.forward_spans(spans)) * FACTOR + self._bonus


class Scripted(Decoder):
    """A decoder that after a prompt of `start` tokens says the tokens of a script, and token 5 after its end."""

    def __init__(self, config: ModelConfig, start: int, script: Sequence[int]) -> None:
        self.config = config
        self._start, self._script = start, script

    def forward(self, ids: Ids, arena: Arena, rows: int = 1) -> torch.Tensor:
        """Take the tokens in and say the next ones."""
        arena.append(ids)
        logits = torch.zeros(rows, self.config.vocab)
        for row in range(rows):
            said = arena.length - rows + 1 + row - self._start
            logits[row, self._script[said] if 0 <= said < len(self._script) else 5] = 9.0
        return logits

    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """The same for several arenas."""
        return torch.cat([self.forward(span.ids, span.arena, span.rows) for span in spans])


def counts_of(tokenizer: Tokenizer, *texts: str) -> Counts:
    """A memory of some texts, each a document."""
    documents = [
        CountedDocument(f"/{n}", f"{n}{text}".encode(), tokenizer.encode(text)) for n, text in enumerate(texts)
    ]
    return EMPTY.with_changes((), documents)


def ids_of(tokens: Sequence[int]) -> Ids:
    """Token ids as an array."""
    return np.array(tokens, dtype=np.int32)


def key_of(tokens: Sequence[int]) -> SequenceKey:
    """The key of tokens that see no excerpts."""
    return SequenceKey(ids_of(tokens))
