"""The engine in this process: reuses what arenas hold, computes the rest and decodes greedily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.engine.alternatives import Alternatives
from model_runtime.engine.decode import DecodeContext, DecodedAnswer, at_end, at_line_end, decode
from model_runtime.engine.engine import (
    EngineDescription,
    EngineStatistics,
    GenerateJob,
    Generation,
    PrepareJob,
    Reusable,
    SavedFrame,
)
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.prefill import NOTHING_FILLED, Filled, PrefillStep, Readied, TextLibrary
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.kv.sequence import Quality
from model_runtime.kv.storage import HeldFrame, KvStorage
from model_runtime.prompt.prompt import Prompt
from model_runtime.sequence_key import SequenceKey, TextsApart


@dataclass(frozen=True)
class EngineParts:
    """The parts of an engine. Engines of the same parts share the arenas, and their contents.

    `capacity` is the size of the pool's arenas: the most tokens of a prompt with its answer. `line_tokens` bounds the
    search for a line likelier than the greedy one: that many passes at most. Prompts with excerpts need the `library`
    of the pool's arenas. The `steps` of options that a setting asks for follow the filling of an arena from storage.
    """

    context: DecodeContext
    pool: Pool[Arena]
    capacity: int
    line_tokens: int = 0
    library: TextLibrary | None = None
    steps: tuple[PrefillStep, ...] = ()
    description: EngineDescription = EngineDescription()

    def with_ngrams(self, ngrams: Ngrams | None) -> EngineParts:
        """Return the same parts with a context that mixes in other n-grams, or none."""
        return replace(self, context=self.context.with_ngrams(ngrams))


class LocalEngine:
    """Generates with one decoder. Used on the engine thread only, unless a method says otherwise."""

    def __init__(self, parts: EngineParts, storage: KvStorage | None = None) -> None:
        """Share the parts, and own the storage, from which arenas are filled and to which they are saved."""
        self.capacity = parts.capacity
        self._description, self._storage, self._granted = parts.description, storage, parts.pool.size
        self._context, self._decoder, self._pool = parts.context, parts.context.decoder, parts.pool
        self._library = parts.library
        self._steps = parts.steps if storage is None else (self._fill, *parts.steps)
        self._alternatives = Alternatives(parts.context, parts.pool, parts.line_tokens)
        self._computed_ahead = 0
        self._last_owner: FrameId | None = None

    def generate(self, job: GenerateJob, cancel: Cancel) -> Generation:
        """Complete the prompt; raises Cancelled soon after `cancel()` is true.

        Expected tokens are verified in one pass if they are likely.
        """
        prompt, started = job.prompt, perf_counter()
        excerpts = self._ready(prompt.apart, cancel)
        readied = perf_counter()
        arena, self._last_owner = self._pool.acquire(job.frame, prompt.key), job.frame
        arena.mark(prompt.ends)
        fetched, computed = excerpts.fetched, excerpts.computed
        for step in self._steps:
            filled = step(arena, prompt.key, cancel, False)
            fetched, computed = fetched + filled.fetched, computed + filled.computed
        restored = perf_counter()
        first = best = DecodedAnswer(self._context, arena, prompt, job.rule, job.limit, expected=job.expected)
        if job.better_line:
            decode(self._context, [first], at_line_end, cancel, draft=True)
            best = self._alternatives.better_line(first, cancel)
        decode(self._context, [best], at_end, cancel, draft=True)
        best.stats.recomputed += computed
        reused = prompt.tokens - best.stats.recomputed
        approximate, decoded = self._approximate(arena, len(prompt.ids), reused), perf_counter()
        others = self._others(job, best, cancel)
        return Generation(
            text=best.output.text,
            choices=tuple(best.chosen),
            confidence=best.output.confidence,
            likelihood=best.output.likelihood,
            reused=reused,
            fetched=fetched,
            approximate=approximate,
            stats=best.stats,
            restore_ms=(restored - readied) * 1e3,
            prefill_ms=(first.first_at - restored + readied - started) * 1e3,
            decode_ms=(decoded - first.first_at) * 1e3,
            complete=best.output.complete,
            others=others,
            alternatives_ms=(perf_counter() - decoded) * 1e3,
        )

    def prepare(self, job: PrepareJob, cancel: Cancel) -> bool:
        """Compute a prompt in advance until `cancel()` is true, its excerpts first; returns whether it is finished.

        If only the arena of the last answer is left, nothing is done.
        """
        frame, prompt = job.frame, job.prompt
        if self._last_owner is not None and frame != self._last_owner == self._pool.current_owner(frame):
            return True
        try:
            self._ready(prompt.apart, cancel, ahead=True)
        except Cancelled:
            return False
        ids, arena = prompt.ids, self._pool.acquire(frame, prompt.key)
        arena.mark(prompt.ends)
        for step in self._steps:
            self._computed_ahead += step(arena, prompt.key, cancel, True).computed
        if (held := arena.common(prompt.key)) < len(ids):
            arena.truncate(held)
        while arena.length < len(ids) and not cancel():
            self._prefetch(arena, ids)
        return arena.rows.first_below(Quality.LOSSY) >= len(ids)

    def reusable(self, frame: FrameId, prompt: Prompt) -> Reusable:
        """Count the tokens of the frame's prompt that are already computed or stored; changes nothing."""
        key = prompt.key
        computed, ahead = self._pool.reusable(frame, key), self._pool.ahead(frame, key)
        kept, stored = self._library.known(key.apart, self._storage) if self._library else (0, 0)
        if self._storage is None:
            return Reusable(computed + kept, 0, ahead)
        reusable = max(computed, min(self._storage.filled(key, computed), len(key.ids) - 1))
        return Reusable(reusable + kept + stored, reusable - computed + stored, ahead)

    def approximate(self, frame: FrameId, prompt: Prompt) -> int:
        """Count the tokens of a prompt, all of them reused, that may differ from what would be computed now."""
        arena = self._pool.get(frame)
        return self._approximate(arena, len(prompt.ids), prompt.tokens) if arena else 0

    def save(self, document: str, frames: Sequence[SavedFrame], cancel: Cancel) -> bool:
        """Save the computed keys and values of frames and their excerpts; false if stopped."""
        if self._storage is None:
            return True
        return self._storage.save(document, [self._held(each) for each in frames], cancel)

    def release(self, document: str) -> None:
        """Let the document's arenas be reused first."""
        self._pool.release_document(document)

    def rest(self, seconds: float) -> None:
        """Give back the memory of frames unused for `seconds`, if they can be fetched from storage."""
        if self._storage is not None:
            self._pool.give_back(seconds, self._last_owner)

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of the arenas and of the storage's memory."""
        arenas = max(1, self._granted // parts)
        self._pool.resize(arenas)
        self._description = replace(self._description, arenas=arenas)
        if self._storage is not None:
            self._storage.share_memory(parts)

    def describe(self) -> EngineDescription:
        """Return what runs where, and why. On any thread."""
        return self._description

    def statistics(self) -> EngineStatistics:
        """Return the counts since the start. On any thread."""
        tiers = self._storage.stats() if self._storage else ()
        return EngineStatistics(self._computed_ahead, self._pool.wasted, tiers)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all that was saved is written; return whether it is. On any thread."""
        return self._storage is None or self._storage.flush(seconds)

    def close(self, seconds: float) -> None:
        """Write saved rows for up to `seconds`, and close the storage; the arenas go with the parts."""
        if self._storage is not None:
            self._storage.close(seconds)

    def _others(self, job: GenerateJob, best: DecodedAnswer, cancel: Cancel) -> tuple[str, ...]:
        """Return the texts of alternatives to an answer, none if one text is all that is wanted."""
        if (count := job.wanted - 1) <= 0:
            return ()
        return tuple(self._alternatives.generate(job.prompt, best.chosen, job.rule, job.limit, count, cancel))

    def _held(self, saved: SavedFrame) -> HeldFrame:
        prompt, library = saved.prompt, self._library
        computed = [library.get(text) if library else None for text in prompt.apart.texts]
        arena = self._pool.get(saved.frame)
        return HeldFrame(prompt.key, prompt.origins, saved.private, saved.committed, arena, computed)

    def _approximate(self, arena: Arena, length: int, reused: int) -> int:
        """Count the tokens of an arena's prompt that may differ slightly from what an engine without a past computes.

        Where a row's bits depend on its company, those are all that are `reused`: they were computed in other passes.
        """
        inexact = arena.approximate(length)
        return inexact if self._decoder.batch_invariant else max(inexact, reused)

    def _ready(self, excerpts: TextsApart, cancel: Cancel, ahead: bool = False) -> Readied:
        """Load or compute the keys and values of excerpts; raises Cancelled, ValueError if there is no room."""
        if not excerpts.texts:
            return Readied(True)
        if self._library is None:
            raise ValueError("the model was not trained with excerpts apart: put their text into the prompt")
        if excerpts.tokens > (most := self._decoder.config.excerpt_rows):
            raise ValueError(
                f"excerpts of {excerpts.tokens} tokens exceed the {most} rows kept for them: choose fewer"
            )

        def compute(ids: Ids, arena: Arena) -> None:
            with self._context.costs.timing(len(ids)):
                self._decoder.forward(ids, arena)
            self._computed_ahead += len(ids) * ahead

        chunk = self._context.costs.background_chunk if ahead else self._context.costs.chunk
        ready = self._library.ready(excerpts, self._storage, compute, chunk, cancel)
        if not ready.complete:
            raise Cancelled
        return ready

    def _fill(self, arena: Arena, key: SequenceKey, cancel: Cancel, _ahead: bool) -> Filled:
        """Fill an arena from the storage if it lacks enough of a key's tokens."""
        storage = self._storage
        if storage is None or len(key.ids) - arena.kept(key) < storage.least:
            return NOTHING_FILLED
        return Filled(fetched=storage.fill(arena, key, cancel, self._context.costs.row_seconds))

    def _prefetch(self, arena: Arena, ids: Ids) -> None:
        start = arena.length
        chunk = ids[start : start + self._context.costs.background_chunk]
        with self._context.costs.timing(len(chunk)):
            logits = self._decoder.forward(chunk, arena)
            arena.rows.mark_unneeded(start)
            arena.keep_logits(logits[0], arena.length)
        self._computed_ahead += len(chunk)
