"""Decodes answers, each in one arena, in as few passes as possible: one with drafts, several in the same passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from model_runtime.cancel import Cancel
from model_runtime.decoder.any_decoder import AnyDecoder, Span, TopTokens
from model_runtime.engine.drafts import NO_DRAFT, Drafts, PassCosts, advance
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import Choice, Sampler, SeenCounts, recall_choices
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.logits import Logits
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.tokenizer import Tokenizer

STALE_AFTER = 8  # tokens after which the text an arena held before says nothing about the text to come


@dataclass
class DecodeContext:
    """The decoder of all answers, and statistics that one answer leaves for the next."""

    decoder: AnyDecoder
    sampler: Sampler
    costs: PassCosts
    drafts: Drafts

    @classmethod
    def of(
        cls, decoder: AnyDecoder, tokenizer: Tokenizer, ngrams: Ngrams | None, ends: frozenset[int] = frozenset()
    ) -> DecodeContext:
        """Start with nothing learnt; an `ngrams` mixes the document's own next-token counts into the model's.

        `ends` end a text, as do special tokens and the tokens that the model's config names.
        """
        ends = frozenset(tokenizer.special.values()) | frozenset(decoder.config.end_ids) | ends
        return cls(decoder, Sampler(tokenizer, ngrams, ends), PassCosts(decoder.chunk), Drafts())

    def with_ngrams(self, ngrams: Ngrams | None) -> DecodeContext:
        """Return a context, with nothing learnt, that mixes in another cache, or none."""
        sampler = self.sampler.with_ngrams(ngrams)
        return DecodeContext(self.decoder, sampler, PassCosts(self.decoder.chunk), Drafts())


@dataclass
class DecodeStats:
    """What an answer cost, in tokens: of the prompt recomputed or computed ahead, known without a pass, drafted.

    `passes` counts decode passes.
    """

    recomputed: int = 0
    ahead: int = 0
    known: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0


class DecodedAnswer:
    """An answer to a prompt, in an arena: the tokens `chosen` so far, the first at `first_at` (perf_counter).

    The first `given` of them are another answer's, except the last, where this answer departs from it. The row is
    the prompt and the chosen tokens, `length` in all. The arena holds a prefix of the row, or the whole row followed
    by tokens of an earlier answer or of a draft, which are kept if they turn out right.
    """

    def __init__(
        self,
        context: DecodeContext,
        arena: Arena,
        prompt: Prompt,
        rule: Rule,
        limit: int,
        start: Sequence[Choice] = (),
        expected: Ids = NO_DRAFT,
    ) -> None:
        """Begin with the tokens `start`; at most `limit` will be chosen, and `expected` ones are likely."""
        self.arena, self.prompt, self.rule, self.limit, self.given = arena, prompt, rule, limit, len(start)
        self.chosen, self.stats, self.first_at = list(start), DecodeStats(), 0.0
        self.length = len(prompt.ids) + len(start)
        self.output = Output(context.sampler, prompt.stub, rule, prompt.history)
        for choice in start:
            self.output.append(choice)
        self._context = context
        self._row, self._history = (self._with_room(ids) for ids in (prompt.ids, prompt.history))
        self._rows: Sequence[Logits] = ()
        self._top: Sequence[TopTokens] | None = None
        self._rows_at, self._draft, self._kind = 0, NO_DRAFT, 0
        ids, history = self._row[: self.length], self._history_so_far
        seen = SeenCounts.by(context.sampler.ngrams, prompt.counts)
        self._choices = recall_choices(arena, ids, history, seen)
        self._expected = self._begin(ids, expected)

    @property
    def full(self) -> bool:
        """Whether arena or limit has no room for another token; there is always room for the first."""
        count = len(self.chosen)
        return count > 0 and (count >= self.limit or self.length > self.arena.capacity)

    @property
    def is_computed(self) -> bool:
        """Whether the arena holds the whole row."""
        return self.arena.length >= self.length

    def advance(self) -> bool:
        """Choose the next token if that needs no pass; return whether it did not."""
        n, stub, sampler = self.length, self.output.stub, self._context.sampler
        choice = self._choices.at(n, stub, sampler.spells)
        if choice is not None:
            self.stats.known += 1
        elif (logits := self._logits()) is not None:
            choice = sampler.pick(logits, self._history_so_far, stub, self._top_tokens(), self.prompt.counts)
            self._choices.add(n, choice, stub)
        else:
            return False
        self._take(choice)
        return True

    def span(self, draft: bool) -> Span:
        """Return what the next pass is to compute: what the arena lacks of the row, then perhaps a draft."""
        n, arena = self.length, self.arena
        if arena.length >= n:  # keys and values are there but no logits: compute the last token once more
            self._expected = self._expected if len(self._expected) else arena.ids[n:].copy()
            arena.truncate(n - 1)
        lacking = self._lacking(n)
        if arena.length + len(lacking) < n:
            return Span(lacking, arena)
        room = self._context.costs.chunk - len(lacking)
        self._draft, self._kind = self._propose_draft(room) if draft else (NO_DRAFT, 0)
        self.stats.drafted += len(self._draft)
        return Span(np.concatenate((lacking, self._draft)), arena, 1 + len(self._draft))

    def receive(self, rows: Sequence[Logits], top: Sequence[TopTokens] | None) -> None:
        """Take the logits [vocab] that follow the row and each token of the draft behind it."""
        self._rows, self._top, self._rows_at = rows, top, self.length
        if not self.chosen:
            self.arena.keep_logits(rows[0], self.length)

    def compute(self, count: int, cancel: Cancel) -> None:
        """Compute what the arena lacks of the prompt and the first `count` chosen tokens: others copy it."""
        end = len(self.prompt.ids) + count
        while self.arena.length < end:
            run_pass(self._context, [Span(self._lacking(end), self.arena)], cancel)

    def move_to(self, other: DecodedAnswer) -> None:
        """Go on in the arena of the answer that this one departs from, which holds all up to there.

        Keys and values of the rest are copied, and the arena remembers the choices of both.
        """
        start, end = len(self.prompt.ids) + self.given - 1, min(self.arena.length, self.length)
        start = other.arena.truncate(start)
        quality = self.arena.rows.worst(end)
        other.arena.copy_in(self._row[start:end], self.arena.read(start, end), quality)
        other.arena.truncate(other.arena.length)  # to where states came with the rows, if the model has some
        other._choices.fork = self._choices
        self.arena, self._expected = other.arena, NO_DRAFT

    @property
    def _history_so_far(self) -> Ids:
        return self._history[: len(self.prompt.history) + len(self.chosen)]

    def _with_room(self, ids: Ids) -> Ids:
        free = np.zeros(max(self.limit, self.given), dtype=np.int32)
        free[: self.given] = [choice.token for choice in self.chosen]
        return np.concatenate((ids, free))

    def _begin(self, ids: Ids, expected: Ids) -> Ids:
        """Truncate the arena to what the row shares with it; what lay beyond is expected if nothing better is."""
        arena = self.arena
        held = arena.common(self.prompt.key._replace(ids=ids))
        kept = arena.resumes_at(held) if held < len(ids) else held
        self.stats.ahead = arena.rows.ahead(kept)
        arena.rows.mark_needed(kept)
        if not len(expected) and len(ids) - held <= STALE_AFTER:
            expected = arena.ids[held:].copy()
            for token in ids[held:]:
                expected = advance(expected, int(token))
        if held < len(ids):
            arena.truncate(held)
        return expected

    def _take(self, choice: Choice) -> None:
        """Continue after a token, with what the arena holds already if it holds that token."""
        n, arena, token = self.length, self.arena, choice.token
        held = n < arena.length and int(arena.ids[n]) == token
        if 0 <= n - self._rows_at < len(self._draft):
            self._context.drafts.record(self._kind, held)
            self.stats.accepted += held
        if not held:
            arena.truncate(min(n, arena.length))
            self._rows, self._draft = (), NO_DRAFT
        self._row[n] = self._history[len(self.prompt.history) + len(self.chosen)] = token
        self._expected = advance(self._expected, token)
        self.first_at = self.first_at or perf_counter()
        self.output.append(choice)
        self.chosen.append(choice)
        self.length += 1

    def _logits(self) -> Logits | None:
        """Return the logits [vocab] that follow the row, if they are there."""
        n = self.length
        if self.arena.logits is not None and self.arena.logits_at == n:
            return self.arena.logits
        return self._rows[n - self._rows_at] if 0 <= n - self._rows_at < len(self._rows) else None

    def _top_tokens(self) -> TopTokens | None:
        """Return the likeliest tokens after the row, if a pass of this answer listed them."""
        at = self.length - self._rows_at
        return self._top[at] if self._top and 0 <= at < len(self._rows) else None

    def _lacking(self, end: int) -> Ids:
        """Return what the arena lacks of the row up to `end`, at most a chunk, which is going to be computed."""
        start = self.arena.length
        end = min(end, start + self._context.costs.chunk)
        self.stats.recomputed += max(0, min(end, len(self.prompt.ids)) - start)
        return self._row[start:end]

    def _propose_draft(self, room: int) -> tuple[Ids, int]:
        """Return a draft of at most `room` tokens, and its kind.

        While a stub has to be spelled, only expected tokens are drafted.
        """
        context, stub = self._context, self.output.stub
        if stub and not (len(self._expected) and context.sampler.spells(int(self._expected[0]), stub)):
            return NO_DRAFT, 0
        most = min(self.limit - len(self.chosen) - 1, self.arena.capacity - self.length, room)
        draft, kind = context.drafts.propose(self._history_so_far, self._expected, context.costs, self.prompt.counts)
        return draft[: max(most, 0)], kind


def at_end(answer: DecodedAnswer) -> bool:
    """Return whether an answer's text has ended."""
    return answer.output.complete


def at_line_end(answer: DecodedAnswer) -> bool:
    """Return whether the first line of an answer that is not blank has ended."""
    return answer.output.line_ended


def decode(
    context: DecodeContext,
    answers: Sequence[DecodedAnswer],
    until: Callable[[DecodedAnswer], bool],
    cancel: Cancel,
    draft: bool = False,
) -> None:
    """Choose tokens for all answers in the same passes, for each until it is full or `until` is true of it.

    With `draft`, which is for a single answer, its passes also verify drafts. Raises Cancelled instead of starting a
    pass.
    """
    while going := [answer for answer in answers if not (answer.full or until(answer))]:
        advanced, spans = False, list[Span]()
        for answer in going:
            advanced = answer.advance() or advanced
        if advanced:
            continue
        for answer in going:
            spans.append(answer.span(draft))
        rows = [*run_pass(context, spans, cancel)]
        top, decoded, at = context.decoder.top_tokens, False, 0
        for answer, span in zip(going, spans, strict=True):
            if answer.is_computed:
                answer.receive(rows[at : at + span.rows], top and top[at : at + span.rows])
                decoded = decoded or bool(answer.chosen)
            at += span.rows
        for answer in answers:
            answer.stats.passes += decoded


def run_pass(context: DecodeContext, spans: Sequence[Span], cancel: Cancel) -> Logits:
    """Compute spans, and learn from a single one what a pass costs; raises Cancelled instead of starting."""
    cancel.check()
    began = perf_counter()
    rows = context.decoder.forward_spans(spans)
    if len(spans) == 1:
        context.costs.record(len(spans[0].ids), (perf_counter() - began) * 1e3)
    return rows
