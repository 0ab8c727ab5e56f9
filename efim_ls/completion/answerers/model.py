"""Answers with the model: plans a frame, and takes the suggestion that is typed through or generates one.

A suggestion passes the filters before it is shown and remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from efim_ls.completion.answerers.cleaning import clean, several
from efim_ls.completion.answerers.costs import CostMeter
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.filters.closed_below import closed_below
from efim_ls.completion.filters.place import place_of
from efim_ls.completion.filters.syntax.readable import readable, whole_statements
from efim_ls.completion.models.open import ServedModel
from efim_ls.completion.planning.planner import Frame, Plan, Planner
from efim_ls.completion.planning.window import Budget, surroundings
from efim_ls.completion.suggestions.explanation import AnswerOrigin, explained
from efim_ls.completion.suggestions.recent import Asked, Remainder
from efim_ls.completion.suggestions.sure import ShownPart, paused_part, shown_part, sure_part
from efim_ls.languages.table import known_as
from efim_ls.request import Answer, Reason, Request, Upcoming
from efim_ls.text.lines import enclosing_line, line_start
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.engine import GenerateJob, Generation, PrepareJob
from model_runtime.engine.output import TextProbability
from model_runtime.engine.stops import is_closers, stop_rule
from model_runtime.errors import EngineError
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import Model
from model_runtime.prompt.prompt import NOTHING_LAID_OUT, Prompt, Surroundings, build, surrounded
from model_runtime.prompt.template import Template
from model_runtime.shelves.excerpts.layout import layout

SPARE = 3  # extra texts, for texts that filters empty or that repeat another
REASONS: dict[str, Reason] = {
    name: "duplicate"
    for name in ("rest_of_line", "lines_below", "lines_again", "near_copies", "redefinition", "sentences_again")
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Planned:
    """A request in a document, its plan, and the costs of its answer so far."""

    document: DocumentState
    asked: Asked  # with the plan's context
    plan: Plan
    meter: CostMeter

    @property
    def request(self) -> Request:
        """The request, with the counts that are in effect."""
        return self.asked.request

    @property
    def is_divisible(self) -> bool:
        """Whether a part of a suggestion can be shown: before code, all of it must lead into that code."""
        return is_closers(self.plan.rest)


class ModelAnswerer:
    """Answers with a loaded model in the languages that it knows."""

    def __init__(
        self,
        served: ServedModel,
        languages: Collection[str],
        limits: tuple[int, int],
        is_private: Callable[[str], bool],
        client: str,
    ) -> None:
        """Answer within `limits`: the most new tokens, and the most lines of a suggestion.

        `is_private` says whether the text of a document, by its URI, must not leave this machine. `client` sets the
        frames of its documents apart from other clients' with the same model.
        """
        self.languages, self._is_private, self._client = languages, is_private, client
        self.trouble = ""  # why the engine could not answer last; empty if it could. Read on any thread
        self._model, self._engine, self._sureness = served.model, served.engine, served.sureness
        self._max_new_tokens, self._max_lines = limits
        self._longest_prompt = served.capacity - self._max_new_tokens  # tokens
        self.new_planner = _planners(served.model, served.budget)

    def document_name(self, uri: str) -> str:
        """Return the engine's name of a document."""
        return self._client + uri

    def frame_id(self, uri: str, plan: Plan) -> FrameId:
        """Return the engine's name of a document's frame."""
        return FrameId(self.document_name(uri), plan.number)

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        meter, request = CostMeter(), asked.request
        try:
            frame = document.plan(request, cancel)
            meter.lap("plan")
            meter.frame(frame)
            planned = Planned(document, asked.showing(frame.plan.context), frame.plan, meter)
            left = planned.asked.left
            known = left is not None and not request.explicit
            prompt = frame.prompt if known else self.with_surroundings(request, frame, cancel)
            meter.lap("tokenize")
            if reason := self._refusal(frame.plan, prompt):
                return Answer("", meter.total(), reason)
            if left and known:
                return self._known(planned, prompt, left)
            made = self._engine.generate(self._job(planned, prompt, left), cancel)
        except Cancelled:
            return Answer("", meter.total(), "superseded")
        except EngineError as error:
            return self._failed(str(error), meter)
        self.trouble = ""
        meter.generation(made)
        meter.lap()
        return self._cleaned(planned, made)

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        """Compute the frames of a place until `cancel()` is true; return whether nothing is left to do."""
        try:
            frames = document.plan_ahead(place, cancel)
            if is_done := all(self._prepare(place.request.uri, frame, cancel) for frame in frames):
                document.end_preparing()
            return is_done
        except Cancelled:
            return False
        except EngineError:
            return True  # the request that follows says so

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return the exact prompt that a request would send, its costs, and the last answer there, `answered`."""
        model, planner = self._model, document.planner.copy()
        planner.offer(request.context, request.excluded_files, request.language)
        frame, meter = planner.plan(request.text, request.cursor), CostMeter()
        plan, prompt = frame.plan, frame.prompt
        reusable = self._engine.reusable(self.frame_id(request.uri, plan), prompt)
        meter.frame(frame)
        meter.add(**reusable._asdict(), recomputed=prompt.tokens - reusable.reused)
        explanation = explained(
            model.tokenizer, model.template, frame, meter.counted(), answered, document.answer_origin
        )
        return explanation | {"reason": self._refusal(plan, prompt)}

    def with_surroundings(self, request: Request, frame: Frame, cancel: Cancel) -> Prompt:
        """Return the prompt with the text around the window, other files and the repository's counts.

        Without n-grams to read them, that is the prompt alone. Other files are tokenized one by one, since new
        ones take milliseconds; raises Cancelled between them.
        """
        if self._model.ngrams is None:
            return frame.prompt
        for other in request.others:
            cancel.check()
            self._model.tokenizer.encode(other)
        plan, (_, _, below) = frame.plan, enclosing_line(request.text, request.cursor)
        before, after = surroundings(request.text, plan.start, below + len(plan.tail))
        prompt = replace(frame.prompt, counts=request.counts)
        return surrounded(self._model.tokenizer, prompt, Surroundings(before, after, request.others))

    def _prepare(self, uri: str, frame: Frame, cancel: Cancel) -> bool:
        if self._refusal(frame.plan, frame.prompt):
            return True
        return self._engine.prepare(
            PrepareJob(self.frame_id(uri, frame.plan), frame.prompt, self._is_text_private(uri, frame.plan)), cancel
        )

    def _refusal(self, plan: Plan, prompt: Prompt) -> Reason | None:
        if "\0" in plan.head or "\0" in plan.typed or "\0" in plan.rest or "\0" in plan.tail:
            return "binary text"
        return "line too long" if len(prompt.ids) > self._longest_prompt else None

    def _known(self, planned: Planned, prompt: Prompt, left: Remainder) -> Answer:
        """Answer with the remainder of an earlier suggestion, which has already been computed and filtered."""
        document, request, meter = planned.document, planned.request, planned.meter
        document.suggestions.renew(left)
        tokens = len(self._tokens(prompt, left.text))
        approximate = self._engine.approximate(self.frame_id(request.uri, planned.plan), prompt)
        meter.add(reused=prompt.tokens, approximate=approximate, new_tokens=tokens, known=tokens)
        likelihood = left.suggestion.likelihood
        document.answer_origin = None
        source = left.suggestion.source
        if likelihood is None:
            return _answer(left.word, meter) if left.word else Answer(left.text, meter.total(), source=source)
        document.answer_origin = AnswerOrigin(likelihood, left.typed, request.counts, planned.asked.refuted)
        answer = self._shown(planned, likelihood, left.typed)
        return replace(answer, source=answer.source or source)

    def _failed(self, cause: str, meter: CostMeter) -> Answer:
        """Return an answer without a suggestion, and log its cause unless the last answer had the same."""
        if cause != self.trouble:
            logger.warning("the model gives no answer: %s", cause)
        self.trouble = cause
        return Answer("", meter.total(), "no answer", cause=cause)

    def _job(self, planned: Planned, prompt: Prompt, left: Remainder | None) -> GenerateJob:
        """Return what the engine has to generate: an answer, and others if the request wants several."""
        request, plan = planned.request, planned.plan
        line = request.text[line_start(request.text, request.cursor) : request.cursor]
        return GenerateJob(
            self.frame_id(request.uri, plan),
            prompt,
            stop_rule(line, plan.rest, request.explicit, self._max_lines),
            self._max_new_tokens,
            expected=self._tokens(prompt, left.text) if left else NO_DRAFT,
            wanted=request.count + SPARE if request.count > 1 else 1,
            better_line=planned.is_divisible,  # another line may not reach the code that follows
            private=self._is_text_private(request.uri, plan),
        )

    def _is_text_private(self, uri: str, plan: Plan) -> bool:
        """Return whether a document, or another whose text its prompt shows, is private."""
        others = (Path(each.file).as_uri() for each in plan.context.all)
        return any(map(self._is_private, (uri, *others)))

    def _cleaned(self, planned: Planned, made: Generation) -> Answer:
        """Return the answer that the filters leave of the model's texts, and remember it."""
        document, request, meter = planned.document, planned.request, planned.meter
        place = place_of(request)
        generated = made.text, *made.others
        (text, emptied_by), *cleaned = [clean(each, place, self._max_lines) for each in generated]
        others = [other for other, _ in cleaned]
        if request.explicit:
            text, *others = (readable(whole_statements(each, place), place) for each in (text, *others))
        texts = several([text, *others], place, request.count, made.text)
        likelihood = made.likelihood.along(text)
        for each in reversed(texts):  # the best last: it wins if two begin alike
            cut = likelihood if each == text and not request.explicit else None
            document.suggestions.add(planned.asked, each, cut)
        meter.lap("postprocess")
        document.answer_origin = AnswerOrigin(likelihood, 0, request.counts, planned.asked.refuted)
        answer = self._shown(planned, likelihood, 0)
        if answer.text and not text:
            return answer
        if not texts:
            return Answer("", meter.total(), REASONS.get(emptied_by, "no fit") if emptied_by else "empty")
        if texts[0] != text:
            return Answer(texts[0], meter.total(), None, tuple(texts[1:]))
        return replace(answer, alternatives=tuple(texts[1:])) if answer.text else answer

    def _shown(self, planned: Planned, likelihood: TextProbability, start: int) -> Answer:
        """Return the part of a suggestion from its character `start` on that is sure enough, or another word."""
        level, divisible = planned.request.least, planned.is_divisible
        place, at_rest = place_of(planned.request), False
        if not isinstance(level, str):
            part = shown_part(likelihood, start, level, divisible)
        else:
            part = sure_part(likelihood, start, place, level, self._sureness, divisible, planned.asked.refuted)
            if not part.shown and level != "sure" and (unsure := paused_part(likelihood, start, place, divisible)):
                part, at_rest = unsure, True
        part = part.cut(len(closed_below(part.shown, place)))
        if part.source:
            planned.document.suggestions.add(planned.asked, part.shown, word=part)
        return replace(_answer(part, planned.meter), at_rest=at_rest)

    def _tokens(self, prompt: Prompt, left: str) -> Ids:
        """Return the tokens of a prompt's stub followed by the remainder of a suggestion."""
        return self._model.tokenizer.encode(prompt.stub.decode() + left)


def _planners(model: Model, budget: Budget) -> Callable[[], Planner]:
    """Return a function that makes planners.

    It refers to the model only: a cycle through an answerer would keep a replaced model in memory.
    """
    lay_out = layout(model.tokenizer, model.template, model.mask, model.excerpt_rows or budget.context_tokens)

    templates = dict[str, Template]()  # by the language at the cursor

    def prompt_of(plan: Plan) -> Prompt:
        shown = lay_out(plan.context) if plan.context.all else NOTHING_LAID_OUT
        if (template := templates.get(plan.language)) is None:
            template = templates[plan.language] = model.template.of(known_as(plan.language))
        return build(model.tokenizer, template, plan.head, plan.tail, plan.typed, context=shown)

    return lambda: Planner(budget, model.tokenizer.pieces, prompt_of)


def _answer(part: ShownPart, meter: CostMeter) -> Answer:
    """Return the answer that shows a part of a suggestion, or a word."""
    return Answer(
        part.shown,
        meter.total(),
        part.reason,
        confidence=part.probability,
        hidden=part.hidden,
        words=part.words,
        least=part.least,
        source=part.source,
    )
