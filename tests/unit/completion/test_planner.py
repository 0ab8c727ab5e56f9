"""Plans against the texts they were made for, over edit histories; R1, R2 and R4 are rules of the design."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import ANCHOR_STEP, LEAD, Plan, Planner
from efim_ls.completion.planning.window import MOST_CHARACTERS, Budget
from tests.unit.planning import (
    CHEAPLY,
    REALLY,
    TOKENIZER,
    Counter,
    Editor,
    Session,
    counters,
    fewer,
    fours,
    frame,
    histories,
    is_at_line_start,
    keystrokes,
    line_around,
    next_line,
    places,
    prompt_of_fours,
    real_prompt,
    short_texts,
    states,
    texts,
    unhurried,
)


def parts(plan: Plan) -> tuple[int, int, str, str, str, str]:
    return plan.number, plan.start, plan.head, plan.typed, plan.rest, plan.tail


def can_be_kept(counter: Counter, plan: Plan) -> bool:
    """In budgets as small as these, a long line has frames without a head, and pieces that do not fit typed."""
    return (bool(plan.head) or plan.start == 0) and counter.count(plan.typed) <= counter.budget.typed


def assert_is_the_document(plan: Plan, text: str, cursor: int) -> None:
    anchor = plan.start + len(plan.head)
    assert 0 <= plan.start <= anchor <= cursor == anchor + len(plan.typed)
    assert text[plan.start : cursor] == plan.head + plan.typed
    right = re.match(r"[^\r\n]*", text[cursor:])
    assert right and plan.rest == right[0]
    assert text.startswith(plan.tail, next_line(text, cursor))


@counters
@unhurried
@given(session=histories(texts))
def test_the_prompt_is_the_document_after_every_edit(counter: Counter, session: Session) -> None:
    planner = counter.planner()
    for text, cursor in states(*session):
        assert_is_the_document(planner.plan(text, cursor).plan, text, cursor)


@counters
@unhurried
@given(session=histories(texts))
def test_head_and_tail_keep_to_their_budgets(counter: Counter, session: Session) -> None:
    planner = counter.planner()
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor).plan
        assert counter.count(plan.head) <= counter.budget.head
        assert counter.count(plan.tail) <= counter.budget.tail


@counters
@unhurried
@given(session=histories(texts))
@example(session=("0\n0\n    return a", 125, [("delete", 0, "1"), ("insert", 0, "    ")]))
def test_the_anchor_starts_a_line_unless_the_line_is_too_long_to_be_typed(counter: Counter, session: Session) -> None:
    planner, most = counter.planner(), counter.budget.typed
    inside: set[int] = set()
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor).plan
        anchor = plan.start + len(plan.head)
        line = line_around(text, anchor)
        too_long = counter.count(line) > most or len(line) > most * MOST_CHARACTERS
        since_it_was_too_long = plan.frame != "new" and plan.number in inside
        if not is_at_line_start(text, anchor):
            assert too_long or since_it_was_too_long
            inside.add(plan.number)


@counters
@unhurried
@given(session=histories(texts))
def test_typed_keeps_to_its_budget_or_to_a_piece_of_a_too_long_line(counter: Counter, session: Session) -> None:
    planner, most = counter.planner(), counter.budget.typed
    for text, cursor in states(*session):
        typed = planner.plan(text, cursor).plan.typed
        assert counter.count(typed) <= most or len(typed) <= max(most, most // 2 + 255)


def test_the_anchor_in_a_too_long_line_is_the_same_for_cursors_close_by() -> None:
    text = "first\n" + "a, b, " * 2000
    anchors = {
        cursor: plan.start + len(plan.head)
        for cursor in range(5000, 5256)
        for plan in [CHEAPLY.planner().plan(text, cursor).plan]
    }
    assert len(set(anchors.values())) <= 256 // ANCHOR_STEP + 1
    assert all(anchor < cursor for cursor, anchor in anchors.items())


@counters
@unhurried
@given(session=histories(texts))
def test_a_tail_never_stays_too_short(counter: Counter, session: Session) -> None:
    planner = counter.planner()
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor).plan
        at = next_line(text, cursor)
        reaches = at + len(plan.tail) == len(text) or 2 * counter.count(plan.tail) >= counter.budget.tail
        assert reaches or plan.tail == counter.window.tail(text, at)


@counters
@unhurried
@given(session=histories(texts))
def test_planning_again_changes_nothing(counter: Counter, session: Session) -> None:
    planner = counter.planner()
    for text, cursor in states(*session):
        first, again = planner.plan(text, cursor).plan, planner.plan(text, cursor).plan
        if can_be_kept(counter, first):
            assert again.frame == "kept"
            assert parts(again) == parts(first)


@fewer
@given(st.lists(st.tuples(st.text(st.characters(), max_size=80), places), min_size=1, max_size=5))
@example([("\na\rb", 0)])
@example([("x = '\ud83d", 1000), ("\udc00\r\ud83d", 500)])
def test_any_text_and_any_cursor_can_be_planned(visits: list[tuple[str, int]]) -> None:
    planner = Planner(Budget(24, 8), TOKENIZER.pieces, real_prompt)
    for text, place in visits:
        cursor = len(text) * place // 1000
        assert_is_the_document(planner.plan(text, cursor).plan, text, cursor)


@counters
@unhurried
@given(text=short_texts, place=places, typing=st.lists(keystrokes, max_size=15))
def test_r1_typing_forward_keeps_the_frame(counter: Counter, text: str, place: int, typing: list[str]) -> None:
    editor, planner = Editor(text, len(text) * place // 1000), counter.planner()
    first = planner.plan(*editor.state).plan
    for key in typing:
        plan = planner.plan(*editor.type(key)).plan
        if counter.count(first.typed + "".join(typing)) <= counter.budget.typed:
            assert plan.frame == "kept"
            assert frame(plan) == frame(first)


def test_r1_typing_past_the_budget_moves_what_was_typed_into_the_head() -> None:
    planner, most = CHEAPLY.planner(), CHEAPLY.budget.typed
    text = "first\n"
    plan = planner.plan(text, len(text)).plan
    for _ in range(most):
        text += "word\n"
        plan = planner.plan(text, len(text)).plan
        assert CHEAPLY.count(plan.typed) <= most
    assert len(plan.head) > len("first\n")


DIGITS = "31415926535897932384626433832795028841971693993751" * 5


@pytest.mark.parametrize(
    "below",
    ["    # digits of pi " + DIGITS[:150] + "\n" + f"    {DIGITS}\n" * 9 + ")\n", f"#{'-' * 78}\n" * 90],
    ids=["a line of many tokens that just does not fit", "lines of few tokens for their length"],
)
def test_r1_holds_above_text_that_does_not_fill_the_tail(below: str) -> None:
    above, planner = "first = 1\nPI = (", Planner(Budget(), TOKENIZER.pieces, real_prompt)
    first = planner.plan(f"{above}\n{below}", len(above)).plan
    for typed in (" ", " #", " # one\n", " # one\n    2"):
        plan = planner.plan(f"{above}{typed}\n{below}", len(above + typed)).plan
        assert frame(plan) == frame(first)
        assert plan.frame == "kept"


@counters
@unhurried
@given(text=short_texts, place=places, typing=st.lists(keystrokes, min_size=1, max_size=8), data=st.data())
def test_r1_backspace_within_typed_keeps_the_frame(
    counter: Counter, text: str, place: int, typing: list[str], data: st.DataObject
) -> None:
    cursor = len(text) * place // 1000
    planner = counter.planner()
    first = planner.plan(text, cursor).plan
    word = "".join(typing)
    if counter.count(first.typed + word) > counter.budget.typed:
        return
    planner.plan(text[:cursor] + word + text[cursor:], cursor + len(word))
    kept = word[: data.draw(st.integers(0, len(word)))]
    plan = planner.plan(text[:cursor] + kept + text[cursor:], cursor + len(kept)).plan
    assert plan.frame == "kept"
    assert frame(plan) == frame(first)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_r1_backspace_keeps_the_frame_up_to_its_anchor_some_lines_above(line_end: str) -> None:
    lines = [f"line_{i} = {i}{line_end}" for i in range(9)]
    above, below = "".join(lines[:5]), "".join(lines[5:])
    planner = Planner(Budget(400, 100), TOKENIZER.pieces, real_prompt)
    first = planner.plan(above + "x" + below, len(above) + 1).plan
    assert (first.head, first.typed) == ("".join(lines[: 5 - LEAD]), "".join(lines[5 - LEAD : 5]) + "x")
    for left in range(5, 5 - LEAD, -1):
        joined = "".join(lines[:left]).removesuffix(line_end)
        plan = planner.plan(joined + below, len(joined)).plan
        assert (plan.frame, plan.head) == ("kept", first.head)
    joined = first.head.removesuffix(line_end)
    assert planner.plan(joined + below, len(joined)).plan.frame == "new"


@counters
@unhurried
@given(
    text=short_texts,
    place=places,
    pair=st.sampled_from(["()", "[]", "{}", '""', "''", "``", "<>", "()\"'"]),
    inside=st.sampled_from(["", "x", "a, b"]),
)
def test_r4_an_auto_closed_pair_changes_nothing(
    counter: Counter, text: str, place: int, pair: str, inside: str
) -> None:
    cursor, planner = len(text) * place // 1000, counter.planner()
    first = planner.plan(text, cursor).plan
    if counter.count(first.typed + pair[0] + inside) > counter.budget.typed:
        return
    opened = text[:cursor] + pair[0] + inside
    plan = planner.plan(opened + pair[1:] + text[cursor:], len(opened)).plan
    assert plan.frame == "kept"
    assert frame(plan) == frame(first)
    assert plan.typed == first.typed + pair[0] + inside


rests = st.text(st.characters(exclude_characters="\r\n"), max_size=12)


@counters
@unhurried
@given(text=texts, place=places, now=st.one_of(rests, st.sampled_from([")", '"]', "(b)", "x = f(1)" * 9])))
def test_r4_no_text_right_of_the_cursor_changes_a_prompt(counter: Counter, text: str, place: int, now: str) -> None:
    cursor = len(text) * place // 1000
    if text[:cursor].endswith("\r"):
        return  # what is inserted before a line feed would make two line ends of one
    changed = text[:cursor] + now + text[cursor:]
    planner = counter.planner()
    first, plan = planner.plan(text, cursor).plan, planner.plan(changed, cursor).plan
    afresh = counter.planner().plan(changed, cursor).plan
    assert plan.rest == now + first.rest
    assert counter.ids(afresh).tolist() == counter.ids(first).tolist()
    if can_be_kept(counter, first):
        assert plan.frame == "kept"
        assert counter.ids(plan).tolist() == counter.ids(first).tolist()


@pytest.mark.parametrize("rest", ["", ")", "(b)", "(b)  # so"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_r4_the_tail_begins_on_the_next_line(rest: str, line_end: str) -> None:
    plan = REALLY.planner().plan(f"a = f{rest}{line_end}c{line_end}", len("a = f")).plan
    assert (plan.typed, plan.rest, plan.tail) == ("a = f", rest, f"c{line_end}")


@pytest.mark.parametrize("line", ["x", "0, ", "y = 1\n"], ids=["one word", "one line", "many lines"])
def test_a_huge_text_is_not_tokenized_as_a_whole(line: str) -> None:
    seen = [0]

    def measured(text: str) -> list[tuple[str, int]]:
        seen.append(len(text))
        return fours(text)

    text, planner = line * (1_000_000 // len(line)), Planner(Budget(), measured, prompt_of_fours)
    for cursor in (len(text) // 2, len(text) // 2 + 1, len(text), 3):
        planner.plan(text, cursor)
    planner.plan_next(text, 3)
    planner.plan_unopened(text)
    planner.plan("", 0)
    planner.plan(text, len(text))
    assert max(seen) <= 10 * Budget().head
