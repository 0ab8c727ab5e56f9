"""One completion, from a request to an answer with its costs: combines planner, model and filters.

Everything here runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from time import perf_counter

from efim_ls.access.reasons import without_prompt
from efim_ls.completion.answerers.phrases import PhraseAnswerer
from efim_ls.completion.costs import CostMeter
from efim_ls.completion.document_state import DocumentState
from efim_ls.completion.filters.alternatives import distinct
from efim_ls.completion.filters.chain import clean
from efim_ls.completion.filters.place import place_at
from efim_ls.completion.models.open import open_model
from efim_ls.completion.models.saving import KvPersistence
from efim_ls.completion.planning.planner import Frame, Plan, Planner
from efim_ls.completion.planning.window import Budget, surroundings
from efim_ls.completion.suggestions.explanation import AnswerOrigin, explained, suggestion
from efim_ls.completion.suggestions.recent import Remainder
from efim_ls.completion.suggestions.shown import ShownPart, shown_part
from efim_ls.languages import ANY, knows, notice
from efim_ls.request import Ahead, Answer, Reason, Request
from efim_ls.settings import Settings
from efim_ls.text.lines import enclosing_line
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.checkpoint.config import EMBEDDED
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.engine import Generation
from model_runtime.engine.output import stop_rule
from model_runtime.engine.rest_of_line import is_closers
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import Model
from model_runtime.prompt.excerpt_layout import layout
from model_runtime.prompt.excerpts import NO_EXCERPTS, ExcerptBudget, Excerpts
from model_runtime.prompt.prompt import NOTHING_LAID_OUT, Prompt, Surroundings, build, surrounded
from model_runtime.prompt.tokenizer import Tokenizer

REASONS: dict[str, Reason] = {
    name: "duplicate" for name in ("rest_of_line", "lines_below", "redefinition", "repetition")
}
Preparation = Callable[[Cancel], bool]  # works until told to stop; returns whether it is done
MOST_DOCUMENTS = 256  # documents whose frames are kept in memory


class Completer:
    """A loaded model with the frames and suggestions of the documents it completes."""

    def __init__(
        self, model: Model, settings: Settings, budget: Budget, persistence: KvPersistence, client: str = ""
    ) -> None:
        """Take a model that was loaded for these settings, and own the persistence.

        `client` sets the arenas of its documents apart from those of other completers with the same model.
        """
        self._client = client
        self._model, self._settings, self._budget, self._persistence = model, settings, budget, persistence
        self._documents: dict[str, DocumentState] = {}  # most recently used last
        self._focused = ""
        self._ahead_ms = 0.0
        self.languages = settings.model_languages or model.description.languages or (ANY,)
        self._phrases = PhraseAnswerer(model.tokenizer, settings.max_new_tokens, settings.max_lines)

        # Refers to the model only: a cycle through this object would keep a replaced model in memory.
        most = model.excerpt_rows or budget.excerpt_tokens
        lay_out = layout(model.tokenizer, model.template, model.mask, most) if any(budget.excerpts) else None

        def prompt_of(plan: Plan) -> Prompt:
            shown = lay_out(plan.excerpts) if lay_out else NOTHING_LAID_OUT
            return build(model.tokenizer, model.template, plan.head, plan.tail, plan.typed, excerpts=shown)

        self._make_planner = lambda: Planner(budget, model.tokenizer.pieces, prompt_of)

    @classmethod
    def load(cls, settings: Settings, progress: Callable[[str, int], None]) -> Completer:
        """Load the configured model; raises ModelError with cause and remedy."""
        model, budget, persistence = open_model(settings, progress)
        return cls(model, settings, budget, persistence)

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        if request.uri != self._focused:
            if left_document := self._documents.get(self._focused):
                left_document.release_memory()
            self._focused = request.uri
            self._persistence.focus(request.uri)
        document = self._document(request.uri)
        request = document.in_effect(request)
        if not knows(self.languages, request.language):
            return self._speak(document, request, cancel)
        meter = CostMeter()
        try:
            frame = document.plan(request, cancel)
            plan, frame_id = frame.plan, self._frame_id(request.uri, frame.plan)
            meter.lap("plan")
            meter.frame(frame)
            left = document.suggestions.left(
                request.text, request.cursor, request.others, request.memory, plan.excerpts
            )
            known = left is not None and not request.explicit
            prompt = frame.prompt if known else self._with_surroundings(request, frame, cancel)
            meter.lap("tokenize")
            if reason := self._refusal(plan, prompt):
                return Answer("", meter.total(), reason)
            if left and known:
                return self._answer_known(document, request, plan, prompt, left, meter)
            rule = stop_rule(_line_before(request), plan.rest, request.explicit, self._settings.max_lines)
            limit = self._settings.max_new_tokens
            expected = self._tokens(prompt, left.text) if left else NO_DRAFT
            better_line = _is_divisible(plan)  # another line may not reach the code that follows
            made = self._model.engine.generate(frame_id, prompt, rule, limit, cancel, expected, better_line)
            meter.generation(made)
            meter.lap()
            others = list[str]()
            if (count := request.count - 1) > 0:
                others = self._model.engine.alternatives.generate(prompt, made.choices, rule, limit, count, cancel)
        except Cancelled:
            return Answer("", meter.total(), "superseded")
        meter.lap("alternatives")
        return self._answer(document, request, plan, made, others, meter)

    def _speak(self, document: DocumentState, request: Request, cancel: Cancel) -> Answer:
        """Answer in a language that the model does not know."""
        return self._phrases.complete(request, document.suggestions, cancel)

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if the model does not know a language, else None; on any thread."""
        model = self._model.description.model
        return notice("" if model == str(EMBEDDED) else model, self.languages, language)

    def prefetch(self, request: Request, rested: bool = False) -> Preparation:
        """Return work that prefetches what a completion for this request will need.

        Where the cursor has `rested` and no suggestion is shown, the prompt takes up the excerpts that are offered.
        """
        if not knows(self.languages, request.language):
            return _nothing_to_prepare

        def frames(cancel: Cancel) -> list[Frame | None]:
            planner = self._document(request.uri).set_excerpts(request.excerpts, request.withdrawn)
            place = request.text, request.cursor, cancel
            return [planner.plan_at_rest(*place) if rested else planner.plan(*place), planner.plan_next(*place)]

        return self._preparation(request.uri, frames)

    def prefetch_opened(
        self, uri: str, text: str, language: str = "", excerpts: Excerpts | None = None
    ) -> Preparation:
        """Return work that prefetches what a first completion in a document will need."""
        if not knows(self.languages, language):
            return _nothing_to_prepare
        state = self._document
        return self._preparation(uri, lambda cancel: [state(uri).set_excerpts(excerpts).plan_unopened(text, cancel)])

    def explain(self, request: Request, answered: Answer | None = None) -> dict[str, object]:
        """Return the exact prompt that a request would send, its costs, and what was `answered` there last.

        It changes nothing.
        """
        document, model = self._document(request.uri), self._model
        if unknown := self.notice(request.language):
            reason = self._phrases.refusal(request) if self._phrases else "no phrase"
            told = suggestion(model.tokenizer, answered, document.spoken)
            return without_prompt() | {"reason": reason, "notice": unknown, "suggestion": told}
        planner = document.planner.copy()
        planner.set_excerpts(request.excerpts or NO_EXCERPTS, request.withdrawn)
        frame, meter = planner.plan(request.text, request.cursor), CostMeter()
        plan, prompt = frame.plan, frame.prompt
        reusable = model.engine.reusable(self._frame_id(request.uri, plan), prompt.ids, prompt.isolated)
        meter.frame(frame)
        meter.add(**reusable._asdict(), recomputed=prompt.tokens - reusable.reused)
        told = explained(model.tokenizer, model.template, frame, meter.counted(), answered, document.spoken)
        return told | {"reason": self._refusal(plan, prompt), "notice": None}

    def forget_suggestions(self) -> None:
        """Forget what was suggested in all documents: files that it came from may no longer be read."""
        for document in self._documents.values():
            document.forget_suggestions()
            document.forget_excerpts()

    def forget_documents(self) -> None:
        """Forget all documents, so that nothing more of them is saved."""
        for uri in list(self._documents):
            self.close_document(uri, save=False)

    def close_document(self, uri: str, save: bool) -> None:
        """Forget a document's suggestions and release its arenas; with `save`, its frames stay until saved."""
        if (document := self._documents.get(uri)) is not None:
            document.close()
            if not save:
                document.forget_frames()
        if uri == self._focused:
            self._focused = ""
        self._persistence.close_document(uri)
        self._model.engine.release(self._client + uri)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames and what was computed for them; return false if stopped before the end."""
        if (document := self._documents.get(uri)) is None:
            return True
        engine = self._model.engine
        if not self._persistence.save(uri, document, lambda frame: self._arena(uri, frame), cancel, engine.excerpt):
            return False
        if document.closed:
            document.forget_frames()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all saved data is written; return whether it is. On any thread."""
        return self._persistence.flush(seconds)

    def close(self, seconds: float, then: Settings | None = None) -> None:
        """Save everything for up to `seconds`, unless the next settings `then` change what may be saved, and end."""
        end, mine = perf_counter() + seconds, self._settings
        write = then is None or (then.persist, then.private_files) == (mine.persist, mine.private_files)
        unsaved = [uri for uri, document in reversed(self._documents.items()) if document.unsaved]
        wanted = sorted(unsaved, key=lambda uri: self._documents[uri].closed) if write else []
        with ExitStack() as parts:  # the last first, and each whatever became of those before
            parts.callback(self._persistence.close, seconds, write)
            for uri in self._documents:
                parts.callback(self._model.engine.release, self._client + uri)
            for uri in reversed(wanted):
                parts.callback(self.save, uri, Cancel(lambda: perf_counter() > end))
        self._documents.clear()

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, with the budget as fitted to the model's context."""
        described = asdict(self._model.description) | {"languages": list(self.languages)}
        return described | self._budget.describe() | self._persistence.describe()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, None if nothing reads the repository; on any thread."""
        reads = self._model.ngram_cache or self._phrases or any(self.excerpt_budget)
        return self._model.tokenizer if reads else None

    @property
    def excerpt_budget(self) -> ExcerptBudget:
        """The most tokens of each part of other files' text; on any thread."""
        return self._budget.excerpts

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What each tier holds; on any thread."""
        return self._persistence.stats()

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching with this model; on any thread."""
        engine = self._model.engine
        return Ahead(engine.computed_ahead, engine.wasted_ahead, self._ahead_ms)

    def _document(self, uri: str) -> DocumentState:
        """Return a document's state and mark it as most recently used; may drop the oldest saved one."""
        document = self._documents.pop(uri, None) or DocumentState(self._make_planner, self._persistence.recall(uri))
        self._documents[uri], document.closed = document, False
        if len(self._documents) > MOST_DOCUMENTS:
            old = next((uri for uri, each in self._documents.items() if not each.unsaved), None)
            if old is not None:
                del self._documents[old]
        return document

    def _frame_id(self, uri: str, plan: Plan) -> FrameId:
        return FrameId(self._client + uri, plan.number)

    def _arena(self, uri: str, frame: Frame) -> Arena | None:
        return self._model.engine.arena(self._frame_id(uri, frame.plan))

    def _preparation(self, uri: str, frames_of: Callable[[Cancel], list[Frame | None]]) -> Preparation:
        """Return work that plans once, when it starts: the document may change while the work is interrupted."""
        frames: list[Frame | None] = []

        def prepare(cancel: Cancel) -> bool:
            began = perf_counter()
            try:
                frames[:] = frames or frames_of(cancel)
                done = all(self._prepare(uri, frame, cancel) for frame in frames if frame)
            except Cancelled:
                done = False
            self._ahead_ms += (perf_counter() - began) * 1e3
            return done

        return prepare

    def _prepare(self, uri: str, frame: Frame, cancel: Cancel) -> bool:
        if self._refusal(frame.plan, frame.prompt):
            return True
        prompt = frame.prompt
        return self._model.engine.prepare(self._frame_id(uri, frame.plan), prompt.ids, cancel, prompt.isolated)

    def _with_surroundings(self, request: Request, frame: Frame, cancel: Cancel) -> Prompt:
        """Return the prompt with the text around the window, other files and the repository's counts.

        Without a local cache to read them, that is the prompt alone. Other files are tokenized one by one, since new
        ones take milliseconds; raises Cancelled between them.
        """
        if self._model.ngram_cache is None:
            return frame.prompt
        for other in request.others:
            cancel.check()
            self._model.tokenizer.encode(other)
        plan, (_, _, below) = frame.plan, enclosing_line(request.text, request.cursor)
        before, after = surroundings(request.text, plan.start, below + len(plan.tail))
        prompt = replace(frame.prompt, memory=request.memory)
        return surrounded(self._model.tokenizer, prompt, Surroundings(before, after, request.others))

    def _refusal(self, plan: Plan, prompt: Prompt) -> Reason | None:
        if any("\0" in part for part in (plan.head, plan.typed, plan.rest, plan.tail)):
            return "binary text"
        room = self._model.engine.capacity - self._settings.max_new_tokens
        return "line too long" if len(prompt.ids) > room else None

    def _tokens(self, prompt: Prompt, left: str) -> Ids:
        """Return the tokens of a prompt's stub followed by the remainder of a suggestion."""
        return self._model.tokenizer.encode(prompt.stub.decode() + left)

    def _answer_known(
        self,
        document: DocumentState,
        request: Request,
        plan: Plan,
        prompt: Prompt,
        left: Remainder,
        meter: CostMeter,
    ) -> Answer:
        """Answer with the remainder of an earlier suggestion, which has already been computed and filtered."""
        document.suggestions.renew(left)
        tokens, length, engine = len(self._tokens(prompt, left.text)), len(prompt.ids), self._model.engine
        arena = engine.arena(self._frame_id(request.uri, plan))
        approximate = engine.approximate(arena, length, prompt.tokens) if arena else 0
        meter.add(reused=prompt.tokens, approximate=approximate, new_tokens=tokens, known=tokens)
        likelihood = left.suggestion.likelihood
        document.spoken = AnswerOrigin(likelihood, left.typed, request.memory) if likelihood else None
        if likelihood is None:
            return Answer(left.text, meter.total())
        return _shown(shown_part(likelihood, left.typed, request.least, _is_divisible(plan)), meter)

    def _answer(
        self,
        document: DocumentState,
        request: Request,
        plan: Plan,
        made: Generation,
        others: list[str],
        meter: CostMeter,
    ) -> Answer:
        place = place_at(request.text, request.cursor, request.language, request.others)
        (text, emptied_by), *cleaned = [clean(each, place, self._settings.max_lines) for each in (made.text, *others)]
        texts = distinct([text, *(other for other, _ in cleaned)], place)
        likelihood = made.likelihood.along(text)
        for each in reversed(texts):  # the best last: it wins if two begin alike
            cut = likelihood if each == text and not request.explicit else None
            document.suggestions.add(
                request.text, request.cursor, each, request.others, cut, request.memory, plan.excerpts
            )
        meter.lap("postprocess")
        document.spoken = AnswerOrigin(likelihood, 0, request.memory)
        if not texts:
            return Answer("", meter.total(), REASONS.get(emptied_by, "no fit") if emptied_by else "empty")
        if not text:
            return Answer(texts[0], meter.total(), None, tuple(texts[1:]))
        answer = _shown(shown_part(likelihood, 0, request.least, _is_divisible(plan)), meter)
        return replace(answer, alternatives=tuple(texts[1:])) if answer.text else answer


def _shown(beginning: ShownPart, meter: CostMeter) -> Answer:
    return Answer(
        beginning.shown,
        meter.total(),
        None if beginning.shown else "low confidence",
        confidence=beginning.probability,
        hidden=beginning.hidden,
        words=beginning.words,
    )


def _is_divisible(plan: Plan) -> bool:
    """Return whether a part of a suggestion can be shown: before code, all of it must lead into that code."""
    return is_closers(plan.rest)


def _nothing_to_prepare(_: Cancel) -> bool:
    return True


def _line_before(request: Request) -> str:
    start, _, _ = enclosing_line(request.text, request.cursor)
    return request.text[start : request.cursor]
