"""Answers prompts: reuses what arenas hold, computes the rest and decodes greedily; computes prompts in advance."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, Protocol

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.compose.composer import Composer
from model_runtime.engine.alternatives import Alternatives
from model_runtime.engine.decode import DecodeContext, DecodedAnswer, DecodeStats, at_end, at_line_end, decode
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.ngram_cache import NgramCache
from model_runtime.engine.output import Rule
from model_runtime.engine.probability import TextProbability
from model_runtime.engine.sampler import Choice
from model_runtime.ids import Ids
from model_runtime.isolated import NONE_ISOLATED, IsolatedExcerpts
from model_runtime.kv.arena import Arena
from model_runtime.kv.excerpt_library import ComputedExcerpt, ExcerptLibrary, ExcerptSource, Readied
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.kv.rows import Quality
from model_runtime.prompt.prompt import Prompt


class KvSource(ExcerptSource, Protocol):
    """A store beyond the arenas from which keys and values can be read back, `least` tokens at once or more."""

    least: int

    def fill(self, arena: Arena, ids: Ids, cancel: Cancel, /) -> int:
        """Append what is stored of `ids` to an arena that holds a prefix of them, and return how many tokens.

        They are stored with the excerpts that the arena has. What it holds beyond that prefix is dropped. Once
        `cancel()` is true, it ends within one read.
        """
        ...

    def filled(self, ids: Ids, computed: int, excerpts: IsolatedExcerpts, /) -> int:
        """Count the tokens of `ids` that an arena with `computed` of them, and excerpts, would hold once filled."""
        ...


class Reusable(NamedTuple):
    """Tokens of a prompt, with its excerpts, that need no pass; those of them to be fetched; those computed ahead."""

    reused: int
    fetched: int
    ahead: int


@dataclass(frozen=True)
class Generation:
    """New text after the prompt's typed text, and what it cost; times in milliseconds.

    Of the `reused` tokens, `fetched` came from the engine's KV source, and `approximate` may differ slightly from
    what the model would compute now. `prefill_ms` runs to the first new token. `complete` is false if the limit of
    new tokens cut the text off. `choices` are the new tokens; `confidence` is the joint probability of those of the
    first line, `likelihood` that of each beginning of the text.
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

    @property
    def new_tokens(self) -> int:
        """Number of new tokens."""
        return len(self.choices)


class Engine:
    """Generates with one decoder. Used on the engine thread only.

    A `composer`, where a setting asks for one, fills arenas with approximate keys and values before an answer, and
    replaces them by exact ones when a prompt is prepared.
    """

    composer: Composer | None = None

    def __init__(
        self,
        context: DecodeContext,
        pool: Pool[Arena],
        capacity: int,
        kv_source: KvSource | None = None,
        line_tokens: int = 0,
    ) -> None:
        """Take over the parts; answers are decoded with `context`.

        `capacity` is the size of the pool's arenas: the most tokens of a prompt with its answer. A `kv_source` fills
        arenas with stored tokens. `line_tokens` bounds the search for a line likelier than the greedy one: that many
        passes at most.
        Prompts with excerpts need a `library`, which is that of the pool's arenas.
        """
        self.capacity = capacity
        self.library: ExcerptLibrary | None = None
        self._kv_source = kv_source
        self.computed_ahead = 0
        self._last_owner: FrameId | None = None
        self.context, self._decoder, self._pool = context, context.decoder, pool
        self.alternatives = Alternatives(context, pool, line_tokens)

    def with_ngram_cache(self, ngram_cache: NgramCache | None) -> Engine:
        """Return an engine over the same model and arenas that mixes in another cache, or none."""
        other = Engine(self.context.with_ngram_cache(ngram_cache), self._pool, self.capacity)
        other.library = self.library
        return other

    def generate(
        self,
        owner: FrameId,
        prompt: Prompt,
        rule: Rule,
        limit: int,
        cancel: Cancel,
        expected: Ids = NO_DRAFT,
        better_line: bool = False,
    ) -> Generation:
        """Complete the prompt greedily by at most `limit` tokens; raises Cancelled soon after `cancel()` is true.

        `expected` tokens are verified in one pass if they are likely; they never change the answer. With
        `better_line`, the first line is the likeliest of a few, and greedy decoding continues after it.
        """
        started = perf_counter()
        excerpts = self._ready(prompt.isolated, cancel)
        readied = perf_counter()
        arena, self._last_owner = self._pool.acquire(owner, prompt.ids, excerpts=prompt.isolated), owner
        fetched = excerpts.fetched + self._fill(arena, prompt.ids, cancel)
        restored = perf_counter()
        computed = excerpts.computed + self._compose(arena, prompt.ids, cancel)
        first = best = DecodedAnswer(self.context, arena, prompt, rule, limit, expected=expected)
        if better_line:
            decode(self.context, [first], at_line_end, cancel, draft=True)
            best = self.alternatives.better_line(first, cancel)
        decode(self.context, [best], at_end, cancel, draft=True)
        best.stats.recomputed += computed
        reused = prompt.tokens - best.stats.recomputed
        return Generation(
            text=best.output.text,
            choices=tuple(best.chosen),
            confidence=best.output.confidence,
            likelihood=best.output.likelihood,
            reused=reused,
            fetched=fetched,
            approximate=self.approximate(arena, len(prompt.ids), reused),
            stats=best.stats,
            restore_ms=(restored - readied) * 1e3,
            prefill_ms=(first.first_at - restored + readied - started) * 1e3,
            decode_ms=(perf_counter() - first.first_at) * 1e3,
            complete=best.output.complete,
        )

    def prepare(self, owner: FrameId, ids: Ids, cancel: Cancel, excerpts: IsolatedExcerpts = NONE_ISOLATED) -> bool:
        """Compute a prompt in advance until `cancel()` is true, its excerpts first; returns whether it is finished.

        If only the arena of the last answer is left, nothing is done.
        """
        if self._last_owner is not None and owner != self._last_owner == self._pool.current_owner(owner):
            return True
        try:
            self._ready(excerpts, cancel, ahead=True)
        except Cancelled:
            return False
        arena = self._pool.acquire(owner, ids, excerpts=excerpts)
        self._fill(arena, ids, cancel)
        held = arena.common(ids)
        if held < len(ids):
            held = arena.truncate(held)
        if self.composer is not None:
            self.computed_ahead += self.composer.recompute(arena, held, cancel)
        while arena.length < len(ids) and not cancel():
            self._compute_ahead(arena, ids)
        return arena.rows.first_below(Quality.LOSSY) >= len(ids)

    def approximate(self, arena: Arena, length: int, reused: int) -> int:
        """Count the tokens of an arena's prompt that may differ slightly from what an engine without a past computes.

        Where a row's bits depend on its company, those are all that are `reused`: they were computed in other passes.
        """
        inexact = arena.approximate(length)
        return inexact if self._decoder.batch_invariant else max(inexact, reused)

    @property
    def wasted_ahead(self) -> int:
        """Tokens computed ahead of need and dropped before an answer needed them."""
        return self._pool.wasted

    def reusable(self, owner: FrameId, ids: Ids, excerpts: IsolatedExcerpts = NONE_ISOLATED) -> Reusable:
        """Count the tokens of the owner's prompt that are already computed or stored; changes nothing."""
        computed, ahead = self._pool.reusable(owner, ids, excerpts), self._pool.ahead(owner, ids, excerpts)
        kept, stored = self.library.known(excerpts) if self.library else (0, 0)
        if self._kv_source is None:
            return Reusable(computed + kept, 0, ahead)
        reusable = max(computed, min(self._kv_source.filled(ids, computed, excerpts), len(ids) - 1))
        return Reusable(reusable + kept + stored, reusable - computed + stored, ahead)

    def excerpt(self, text: bytes) -> ComputedExcerpt | None:
        """Return the keys and values of an excerpt's token ids, if they are in RAM."""
        return self.library.get(text) if self.library else None

    def arena(self, owner: FrameId) -> Arena | None:
        """Return the frame's arena, if it has one; it changes with the next call."""
        return self._pool.get(owner)

    def release(self, document: str) -> None:
        """Let the document's arenas be reused first."""
        self._pool.release_document(document)

    def _ready(self, excerpts: IsolatedExcerpts, cancel: Cancel, ahead: bool = False) -> Readied:
        """Load or compute the keys and values of excerpts; raises Cancelled, ValueError if there is no room."""
        if not excerpts.texts:
            return Readied(True)
        if self.library is None:
            raise ValueError("the model was not trained with isolated excerpts: put their text into the prompt")
        if excerpts.tokens > (room := self._decoder.config.room):
            raise ValueError(f"excerpts of {excerpts.tokens} tokens exceed a room of {room}: choose fewer")

        def compute(ids: Ids, arena: Arena) -> None:
            began = perf_counter()
            self._decoder.forward(ids, arena)
            self.context.costs.record(len(ids), (perf_counter() - began) * 1e3)
            self.computed_ahead += len(ids) * ahead

        chunk = self.context.costs.background_chunk if ahead else self.context.costs.chunk
        ready = self.library.ready(excerpts, compute, chunk, cancel)
        if not ready.complete:
            raise Cancelled
        return ready

    def _fill(self, arena: Arena, ids: Ids, cancel: Cancel) -> int:
        """Fill an arena from the KV source if it lacks enough of `ids`; return how many tokens were fetched."""
        source = self._kv_source
        if source is None or len(ids) - arena.kept(ids) < source.least:
            return 0
        return source.fill(arena, ids, cancel)

    def _compose(self, arena: Arena, ids: Ids, cancel: Cancel) -> int:
        """Fill an arena with what others hold of `ids` elsewhere, if a setting allows it; return rows computed."""
        if self.composer is None:
            return 0
        return self.composer.compose(arena, ids, self._pool.arenas, cancel).computed

    def _compute_ahead(self, arena: Arena, ids: Ids) -> None:
        began, start = perf_counter(), arena.length
        chunk = ids[start : start + self.context.costs.background_chunk]
        logits = self._decoder.forward(chunk, arena)
        arena.rows.mark_unneeded(start)
        arena.keep_logits(logits[0], arena.length)
        self.computed_ahead += len(chunk)
        self.context.costs.record(len(chunk), (perf_counter() - began) * 1e3)
