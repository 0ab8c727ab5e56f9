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
from efim_ls.completion.models.open import OpenedModel, open_model
from efim_ls.completion.planning.planner import Frame, Plan, Planner
from efim_ls.completion.planning.window import surroundings
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
from model_runtime.engine.engine import GenerateJob, Generation, SavedFrame
from model_runtime.engine.output import stop_rule
from model_runtime.engine.rest_of_line import is_closers
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
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

    def __init__(self, opened: OpenedModel, settings: Settings, client: str = "") -> None:
        """Take a model that was opened for these settings, which `close` closes.

        `client` sets the arenas of its documents apart from those of other completers with the same model.
        """
        self._client, self._opened, self._settings = client, opened, settings
        self._model, self._engine, self._saved = opened.model, opened.engine, opened.documents
        self._budget, model, budget = opened.budget, opened.model, opened.budget
        self._documents: dict[str, DocumentState] = {}  # most recently used last
        self._focused = ""
        self._ahead_ms = 0.0
        self.languages = settings.model_languages or opened.engine.describe().languages or (ANY,)
        self._phrases = None
        if settings.local_cache:
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
        return cls(open_model(settings, progress), settings)

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, return it as superseded within one decode step."""
        if request.uri != self._focused:
            if left_document := self._documents.get(self._focused):
                left_document.release_memory()
            self._focused = request.uri
            self._saved.focus(request.uri)
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
            job = GenerateJob(frame_id, prompt, rule, limit, expected, request.count, better_line)
            made = self._engine.generate(job, cancel)
        except Cancelled:
            return Answer("", meter.total(), "superseded")
        meter.generation(made)
        meter.lap()
        return self._answer(document, request, plan, made, meter)

    def _speak(self, document: DocumentState, request: Request, cancel: Cancel) -> Answer:
        """Answer in a language that the model does not know."""
        if self._phrases is None:
            return Answer("", reason="no phrase")
        return self._phrases.complete(request, document.suggestions, cancel)

    def notice(self, language: str) -> str | None:
        """Return a sentence for users if the model does not know a language, else None; on any thread."""
        model = self._engine.describe().model
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
        reusable = self._engine.reusable(self._frame_id(request.uri, plan), prompt)
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
        self._saved.close_document(uri)
        self._engine.release(self._client + uri)

    def save(self, uri: str, cancel: Cancel) -> bool:
        """Save a document's frames and what was computed for them; return false if stopped before the end."""
        if (document := self._documents.get(uri)) is None:
            return True
        if not self._save_frames(uri, document, cancel):
            return False
        if document.closed:
            document.forget_frames()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all saved data is written; return whether it is. On any thread."""
        return self._engine.flush(seconds)

    def close(self, seconds: float, then: Settings | None = None) -> None:
        """Save everything for up to `seconds`, unless the next settings `then` change what may be saved, and end."""
        end, mine = perf_counter() + seconds, self._settings
        write = then is None or (then.persist, then.private_files) == (mine.persist, mine.private_files)
        unsaved = [uri for uri, document in reversed(self._documents.items()) if document.unsaved]
        wanted = sorted(unsaved, key=lambda uri: self._documents[uri].closed) if write else []
        with ExitStack() as parts:  # the last first, and each whatever became of those before
            parts.callback(self._opened.close, seconds, write)
            for uri in self._documents:
                parts.callback(self._engine.release, self._client + uri)
            for uri in reversed(wanted):
                parts.callback(self.save, uri, Cancel(lambda: perf_counter() > end))
        self._documents.clear()

    def describe(self) -> dict[str, object]:
        """Return what runs where and why, with the budget as fitted to the model's context."""
        described = asdict(self._engine.describe()) | {"languages": list(self.languages)}
        return described | self._budget.describe() | self._saved.describe()

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
        return list(self._engine.statistics().tiers)

    @property
    def ahead(self) -> Ahead:
        """Totals of prefetching with this model; on any thread."""
        counted = self._engine.statistics()
        return Ahead(counted.computed_ahead, counted.wasted_ahead, self._ahead_ms)

    def _document(self, uri: str) -> DocumentState:
        """Return a document's state and mark it as most recently used; may drop the oldest saved one."""
        document = self._documents.pop(uri, None) or DocumentState(self._make_planner, self._saved.recall(uri))
        self._documents[uri], document.closed = document, False
        if len(self._documents) > MOST_DOCUMENTS:
            old = next((uri for uri, each in self._documents.items() if not each.unsaved), None)
            if old is not None:
                del self._documents[old]
        return document

    def _frame_id(self, uri: str, plan: Plan) -> FrameId:
        return FrameId(self._client + uri, plan.number)

    def _save_frames(self, uri: str, document: DocumentState, cancel: Cancel) -> bool:
        """Save the frames of a document's requests, and their plans if these have changed."""
        if not (frames := document.asked()):
            return True
        if not self._engine.save(uri, [self._saved_frame(uri, frame) for frame in frames], cancel):
            return False
        before, document.saved = document.saved, [frame.plan for frame in frames]
        if before != document.saved:
            self._saved.note(uri, document.saved)
        return True

    def _saved_frame(self, uri: str, frame: Frame) -> SavedFrame:
        private = self._saved.private((uri, *frame.prompt.origins))
        return SavedFrame(self._frame_id(uri, frame.plan), frame.prompt, private)

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
        return self._engine.prepare(self._frame_id(uri, frame.plan), frame.prompt, cancel)

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
        room = self._engine.capacity - self._settings.max_new_tokens
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
        tokens = len(self._tokens(prompt, left.text))
        approximate = self._engine.approximate(self._frame_id(request.uri, plan), prompt)
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
        meter: CostMeter,
    ) -> Answer:
        place = place_at(request.text, request.cursor, request.language, request.others)
        said = made.text, *made.others
        (text, emptied_by), *cleaned = [clean(each, place, self._settings.max_lines) for each in said]
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
