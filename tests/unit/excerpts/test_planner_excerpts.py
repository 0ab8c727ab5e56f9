"""Frames keep their excerpts while someone types; new ones come with new frames or where the cursor rests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import Plan, Planner
from efim_ls.completion.planning.window import PATHS, Budget
from efim_ls.completion.suggestions.recent import RecentSuggestions
from efim_ls.request import Request
from model_runtime.prompt.prompt import Prompt, build, count_tokens, sizes_of
from model_runtime.prompt.template import find_template
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget, ExcerptPlace, Excerpts
from model_runtime.shelves.excerpts.layout import PlainLayout
from tests.unit.planning import TOKENIZER, Session, histories, short_texts, states, unhurried

BUDGET = Budget(head=120, tail=40, context=ExcerptBudget(40, 40, 40))
TEMPLATE = find_template(TOKENIZER)
LAYOUT = PlainLayout(TOKENIZER, TEMPLATE, BUDGET.context_tokens)


def excerpt(place: ExcerptPlace, number: int) -> Excerpt:
    return Excerpt(place, f"f{number}.py", f"/f{number}.py", (number,), f"def f_{number}(): ...\n", "")


OFFERS = [
    Excerpts((excerpt("signatures", a),), (excerpt("imports", b),), similar, "r", "d.py")
    for a, b, similar in (
        (1, 2, ()),
        (1, 2, (excerpt("similar", 3),)),
        (1, 4, (excerpt("similar", 5),)),
        (6, 2, (excerpt("similar", 7),)),
    )
]
offers = st.lists(st.tuples(st.sampled_from(OFFERS), st.booleans()), min_size=1, max_size=8)


def prompt(plan: Plan) -> Prompt:
    return build(TOKENIZER, TEMPLATE, plan.head, plan.tail, plan.typed, context=LAYOUT.lay_out(plan.context))


def planner() -> Planner:
    return Planner(BUDGET, TOKENIZER.pieces, prompt)


@unhurried
@given(session=histories(short_texts), offered=offers)
def test_what_a_frame_shows_changes_only_at_rest(session: Session, offered: list[tuple[Excerpts, bool]]) -> None:
    made, shown = planner(), dict[int, Excerpts]()
    for number, (text, cursor) in enumerate(states(*session)):
        offer, rests = offered[number % len(offered)]
        made.offer(offer)
        if rests:
            plan = made.plan_at_rest(text, cursor).plan
            assert isinstance(plan.context, Excerpts) and plan.context[:2] == offer[:2]
            assert plan.context.similar in (offer.similar, shown.get(plan.number, offer).similar)
        else:
            plan = made.plan(text, cursor).plan
            new = offer._replace(similar=())
            assert plan.context == (new if plan.frame == "new" else shown[plan.number])
        assert isinstance(plan.context, Excerpts)
        shown[plan.number] = plan.context
        assert {frame.plan.number: frame.plan.context for frame in made.frames}.items() <= shown.items()


@unhurried
@given(session=histories(short_texts), offered=offers)
def test_a_prompt_with_excerpts_keeps_to_its_budget(session: Session, offered: list[tuple[Excerpts, bool]]) -> None:
    made = planner()
    for number, (text, cursor) in enumerate(states(*session)):
        offer, rests = offered[number % len(offered)]
        made.offer(offer)
        frame = made.plan_at_rest(text, cursor) if rests else made.plan(text, cursor)
        assert len(frame.ids) <= BUDGET.prompt_tokens
        window = [part for part in frame.prompt.parts if part.name in ("head", "tail", "typed")]
        shown = frame.prompt.tokens - count_tokens(window) - len(TEMPLATE.marker_ids)
        assert shown == count_tokens(LAYOUT.lay_out(frame.plan.context).parts)
        assert shown <= BUDGET.context_tokens == 120 + PATHS


def test_parts_that_do_not_fit_are_left_out_whole_the_one_that_changes_most_first() -> None:
    names = ("signatures", "imports", "marker", "similar")
    whole = LAYOUT.lay_out(OFFERS[1]).parts
    sizes = [sizes_of(whole)[name] for name in names]
    for most in range(sum(sizes) + 1):
        laid = PlainLayout(TOKENIZER, TEMPLATE, most).lay_out(OFFERS[1]).parts
        kept = [sizes_of(laid)[name] for name in names]
        assert kept in (sizes, [*sizes[:3], 0], [sizes[0], 0, sizes[2], 0], [0, 0, 0, 0])
        assert count_tokens(laid) <= most
    assert count_tokens(whole) == sum(sizes)


@unhurried
@given(session=histories(short_texts), gone=st.sets(st.sampled_from([f"/f{n}.py" for n in range(1, 8)])))
def test_what_is_withdrawn_is_in_no_frame(session: Session, gone: set[str]) -> None:
    made = planner()
    for number, (text, cursor) in enumerate(states(*session)):
        made.offer(OFFERS[number % len(OFFERS)], frozenset(gone) if number % 2 else frozenset())
        made.plan_at_rest(text, cursor)
        if number % 2:
            assert not [each for frame in made.frames for each in frame.plan.context.all if each.file in gone]


def test_a_suggestion_made_with_other_excerpts_is_not_typed_through() -> None:
    suggestions = RecentSuggestions()
    suggestions.add(suggestions.ask(Request("", "x = ", 4)).showing(OFFERS[0]), "f_1()")
    asked = suggestions.ask(Request("", "x = f", 5))
    assert asked.showing(OFFERS[1]).left is None
    left = asked.showing(OFFERS[0]).left
    assert left is not None and left.text == "_1()"
