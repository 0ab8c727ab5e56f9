"""One completion, from a request to an answer with its costs: where planner, model and filters meet.

Everything here runs on the engine thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter

from efim_ls.completion.costing import costs_of, ms_between, timed, with_made
from efim_ls.completion.kv_persistence import Backing
from efim_ls.completion.model_loading import load_model
from efim_ls.completion.planner import Frame, Plan, Planner
from efim_ls.completion.planners import Frames
from efim_ls.completion.postprocess import Place, clean
from efim_ls.completion.recent_suggestions import Shown
from efim_ls.completion.window import Budget
from efim_ls.request import Ahead, Answer, Costs, Milliseconds, Reason, Request
from efim_ls.settings import Settings
from efim_ls.text.lines import enclosing_line
from model_runtime.arena.arena import Arena
from model_runtime.arena.pool import Owner
from model_runtime.engine.decoding import Stopped
from model_runtime.engine.drafts import NOTHING as NO_DRAFT
from model_runtime.engine.engine import Generation
from model_runtime.engine.stops import StopRule, stop_rule
from model_runtime.ids import Ids
from model_runtime.loading.load import Model
from model_runtime.prompt.prompt import NOTHING, Prompt, Surroundings, build

REASONS: dict[str, Reason] = {name: "duplicate" for name in ("rest_of_line", "lines_below", "repetition")}
NEIGHBOURHOOD = 4000  # characters around the cursor's line that the filters may look at
Preparation = Callable[[Callable[[], bool]], bool]  # works until it is told to stop; true when nothing is left
REACH = 1 << 16  # characters beyond either end of the window that the local cache reads: all of nearly every file


class Completer:
    """A loaded model, and the frames and suggestions of the documents it completes."""

    def __init__(self, model: Model, settings: Settings, budget: Budget, backing: Backing) -> None:
        """Complete with a model that was loaded for these settings; owns the backing."""
        self._model, self._settings, self._budget, self._backing = model, settings, budget, backing
        self._ahead_ms = 0.0

        # Bound to the model alone: a cycle through this object would keep a model that was replaced in memory.
        def planner() -> Planner:
            return Planner(budget, model.tokenizer.pieces, lambda plan: _built(model, plan).ids)

        self._frames = Frames(planner, backing.recall)
        self._shown: dict[str, Shown] = {}

    @classmethod
    def load(cls, settings: Settings, progress: Callable[[str, int], None]) -> Completer:
        """Load the model that the settings name; ModelError says what is wrong with it and what to do."""
        model, budget = load_model(settings, progress)
        progress("opening the store", 95)
        model.engine.backing = backing = Backing.open(model.kv, settings, model.description.model, budget)
        return cls(model, settings, budget, backing)

    def complete(self, request: Request, stopped: Callable[[], bool]) -> Answer:
        """Answer a request; once `stopped()` is true it ends within one decode step, as superseded."""
        started = perf_counter()
        self._backing.visit(request.uri)
        plan = self._frames.plan(request)
        ms = Milliseconds(plan=ms_between(started, planned := perf_counter()))
        costs = Costs(frame=plan.frame, ms=ms)
        left = self._shown_in(request.uri).left(request.text, request.cursor, request.others)
        try:
            alone = left and not request.explicit
            prompt = self._prompt(plan, NOTHING if alone else self._surroundings(request, plan, stopped))
            costs = costs_of(plan, prompt, replace(ms, tokenize=ms_between(planned, perf_counter())))
            if reason := self._refusal(plan, prompt):
                return Answer("", timed(costs, started), reason)
            if alone:
                return self._left(request, Owner(request.uri, plan.number), prompt, left, costs, started)
            rule = stop_rule(_line_before(request), plan.rest, request.explicit, self._settings.max_lines)
            made = self._generate(request, plan, prompt, rule, left, stopped)
            costs, said = with_made(costs, made), perf_counter()
            others = self._others(request, plan, prompt, rule, made, stopped)
        except Stopped:
            return Answer("", timed(costs, started), "superseded")
        costs = replace(costs, ms=replace(costs.ms, alternatives=ms_between(said, perf_counter())))
        return self._answer(request, plan, made, others, costs, started)

    def foresee(self, request: Request) -> Preparation:
        """Work that computes ahead what a completion there will need."""

        def plans() -> list[Plan | None]:
            planner = self._frames.planner(request.uri)
            return [planner.plan(request.text, request.cursor), planner.renewed(request.text, request.cursor)]

        return self._preparing(request.uri, plans)

    def foresee_opened(self, uri: str, text: str) -> Preparation:
        """Work that computes ahead what a first completion near a document's beginning will need."""
        return self._preparing(uri, lambda: [self._frames.planner(uri).opening(text)])

    def explain(self, request: Request) -> dict[str, object]:
        """Tell the exact prompt a request would send, in text, and what it would cost; changes nothing."""
        plan = self._frames.planner(request.uri).copy().plan(request.text, request.cursor)
        prompt = self._prompt(plan)
        reused = self._model.engine.reusable(Owner(request.uri, plan.number), prompt.ids)
        costs = replace(costs_of(plan, prompt, Milliseconds()), reused=reused, recomputed=len(prompt.ids) - reused)
        return {
            "prompt": self._model.tokenizer.decode(prompt.ids),
            "head": plan.head,
            "tail": plan.tail,
            "typed": plan.typed,
            "rest": plan.rest,
            "costs": asdict(costs),
            "reason": self._refusal(plan, prompt),
        }

    def forget(self, uri: str) -> None:
        """Drop the frames of a document that was closed."""
        self._frames.close(uri)
        self._shown.pop(uri, None)
        self._backing.leave(uri)
        self._model.engine.release(uri)

    def drop(self, uri: str) -> None:
        """Drop the frames of a document of which nothing more is to be kept."""
        self.forget(uri)
        self._frames.kept(uri)

    def keep(self, uri: str, stopped: Callable[[], bool]) -> bool:
        """Write a document's frames and what was computed of them behind; false if it was stopped before the end."""
        frames = self._frames.asked(uri)
        if frames and not self._backing.keep(uri, frames, partial(self._arena_of, uri), stopped):
            return False
        self._frames.kept(uri)
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until what is kept is written, at most so long; may be called on any thread."""
        return self._backing.flush(seconds)

    def close(self, seconds: float, then: Settings | None = None) -> None:
        """Write all that was computed behind, at most so long, where the settings that come `then` do not differ.

        Nothing may be asked for afterwards.
        """
        end, mine = perf_counter() + seconds, self._settings
        write = then is None or (then.persist, then.private_files) == (mine.persist, mine.private_files)
        for uri in self._frames.documents if write else ():
            self.keep(uri, lambda: perf_counter() > end)
        self._frames.clear()
        self._backing.close(seconds, write)

    def describe(self) -> dict[str, object]:
        """What runs, where, and why it was chosen; the budget is what the model's context leaves of the settings."""
        budget = {"head_tokens": self._budget.head, "tail_tokens": self._budget.tail}
        return {**asdict(self._model.description), **budget, **self._backing.describe()}

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What is kept where; may be read on any thread."""
        return self._backing.stats()

    @property
    def ahead(self) -> Ahead:
        """What was computed ahead of need with this model; may be read on any thread."""
        engine = self._model.engine
        return Ahead(engine.computed_ahead, engine.wasted_ahead, self._ahead_ms)

    def _arena_of(self, uri: str, frame: Frame) -> Arena | None:
        return self._model.engine.arena(Owner(uri, frame.plan.number))

    def _prompt(self, plan: Plan, around: Surroundings = NOTHING) -> Prompt:
        return _built(self._model, plan, around)

    def _preparing(self, uri: str, plans_of: Callable[[], list[Plan | None]]) -> Preparation:
        """Plan once, when the work begins: it may be interrupted, and the document change before it goes on."""
        plans: list[Plan | None] = []

        def prepare(stopped: Callable[[], bool]) -> bool:
            began = perf_counter()
            plans[:] = plans or plans_of()
            done = all(self._prepare(uri, plan, stopped) for plan in plans if plan)
            self._ahead_ms += ms_between(began, perf_counter())
            return done

        return prepare

    def _prepare(self, uri: str, plan: Plan, stopped: Callable[[], bool]) -> bool:
        prompt = self._prompt(plan)
        if self._refusal(plan, prompt):
            return True
        return self._model.engine.prepare(Owner(uri, plan.number), prompt.ids, stopped)

    def _surroundings(self, request: Request, plan: Plan, stopped: Callable[[], bool]) -> Surroundings:
        """What the local cache reads besides the window; nothing where there is none to read it.

        Other files are tokenized one by one, since new ones take milliseconds; raises Stopped between them.
        """
        if self._model.local_cache is None:
            return NOTHING
        for other in request.others:
            if stopped():
                raise Stopped
            self._model.tokenizer.encode(other)
        text, (_, _, below) = request.text, enclosing_line(request.text, request.cursor)
        end = below + len(plan.tail)
        return Surroundings(text[max(0, plan.start - REACH) : plan.start], text[end : end + REACH], request.others)

    def _refusal(self, plan: Plan, prompt: Prompt) -> Reason | None:
        if any("\0" in part for part in (plan.head, plan.typed, plan.rest, plan.tail)):
            return "binary text"
        room = self._model.engine.capacity - self._settings.max_new_tokens
        return "line too long" if len(prompt.ids) > room else None

    def _left(
        self, request: Request, owner: Owner, prompt: Prompt, left: str, costs: Costs, started: float
    ) -> Answer:
        """Answer with what is left of a suggestion: the model has said it, and the filters have seen it."""
        self._remember(request, left)
        tokens = len(self._said(prompt, left))
        arena = self._model.engine.arena(owner)
        approximate = arena.approximate(len(prompt.ids)) if arena else 0
        costs = replace(costs, reused=len(prompt.ids), approximate=approximate, new_tokens=tokens, known=tokens)
        return Answer(left, timed(costs, started))

    def _said(self, prompt: Prompt, left: str) -> Ids:
        """The tokens that spell a prompt's stub and what is left of a suggestion."""
        return self._model.tokenizer.encode(prompt.stub.decode() + left)

    def _generate(
        self, request: Request, plan: Plan, prompt: Prompt, rule: StopRule, left: str, stopped: Callable[[], bool]
    ) -> Generation:
        """Let the model go on to where the rule says; what is left of a suggestion is likely to come again."""
        return self._model.engine.generate(
            Owner(request.uri, plan.number),
            prompt,
            rule,
            self._settings.max_new_tokens,
            stopped,
            self._said(prompt, left) if left else NO_DRAFT,
        )

    def _others(
        self,
        request: Request,
        plan: Plan,
        prompt: Prompt,
        rule: StopRule,
        made: Generation,
        stopped: Callable[[], bool],
    ) -> list[str]:
        """What else the model may say, where more than one suggestion is wanted."""
        owner, limit = Owner(request.uri, plan.number), self._settings.max_new_tokens
        count = request.count - 1
        return self._model.engine.alternatives.say(owner, prompt, made.said, rule, limit, count, stopped)

    def _remember(self, request: Request, suggested: str) -> None:
        self._shown_in(request.uri).add(request.text, request.cursor, suggested, request.others)

    def _shown_in(self, uri: str) -> Shown:
        return self._shown.setdefault(uri, Shown())

    def _answer(
        self, request: Request, plan: Plan, made: Generation, others: list[str], costs: Costs, started: float
    ) -> Answer:
        before, place = perf_counter(), _place(request, plan)
        (text, emptied_by), *cleaned = [clean(each, place, self._settings.max_lines) for each in (made.text, *others)]
        texts = [each for each in dict.fromkeys([text, *(other for other, _ in cleaned)]) if each]
        reason = None if texts else REASONS.get(emptied_by, "no fit") if emptied_by else "empty"
        if text and not made.confidence >= request.least:  # what is no number shows nothing
            texts, reason = [], "low confidence"
        for each in reversed(texts):  # the best last: it counts where two begin alike
            self._remember(request, each)
        costs = replace(costs, ms=replace(costs.ms, postprocess=ms_between(before, perf_counter())))
        first, *more = texts or [""]
        return Answer(first, timed(costs, started), reason, tuple(more), made.confidence)


def _built(model: Model, plan: Plan, around: Surroundings = NOTHING) -> Prompt:
    return build(model.tokenizer, model.template, plan.head, plan.tail, plan.typed, around)


def _line_before(request: Request) -> str:
    start, _, _ = enclosing_line(request.text, request.cursor)
    return request.text[start : request.cursor]


def _place(request: Request, plan: Plan) -> Place:
    start, _, below = enclosing_line(request.text, request.cursor)
    return Place(
        before=request.text[max(start, request.cursor - NEIGHBOURHOOD) : request.cursor],
        rest=plan.rest[:NEIGHBOURHOOD],
        above=request.text[max(0, start - NEIGHBOURHOOD) : start],
        below=request.text[below : below + NEIGHBOURHOOD],
    )
