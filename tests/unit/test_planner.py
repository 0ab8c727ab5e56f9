"""Plans against the texts they were made for, over edit histories; R1 to R4 are the rules of the design."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from efim_ls.planner import ANCHOR_STEP, Plan, Planner
from efim_ls.window import MOST_CHARACTERS, Budget, Pieces, Window
from model_runtime.config import EMBEDDED
from model_runtime.prompt import LEAD
from model_runtime.tokenizer import Tokenizer, fragments

TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
CLOSERS = set(")]}>\"'`,;:")
SMALL, MEDIUM = Budget(head=60, tail=20), Budget(head=120, tail=40)

Operation = tuple[str, int, str]


def cheap(text: str) -> list[tuple[str, int]]:
    """A token for every four characters begun: as fast as a counter gets."""
    return [(piece, -(-len(piece) // 4)) for piece in fragments(text)]


unhurried = settings(deadline=None, max_examples=100)
fewer = settings(deadline=None, max_examples=40)
counters = pytest.mark.parametrize(
    "pieces, budget", [(cheap, SMALL), (TOKENIZER.pieces, MEDIUM)], ids=["cheap", "real tokenizer"]
)

line_ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
short_lines = st.sampled_from(
    ["", "", "    ", "\t", "\f", "def f(a):", "    return a", "x = [1, 2]", "})", "naïve = '日本😀'", "# \u2028 \x85"]
)
other_lines = st.one_of(
    short_lines,
    short_lines,
    st.sampled_from(["    call(first, second, third, [fourth])", "x" * 10_000, "0, 1, " * 150, " " * 300, "-" * 300]),
    st.text(max_size=12),
)


def joined(lines: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    """Texts of such lines, with or without an end of the last one."""
    ended = st.lists(st.tuples(lines, line_ends).map("".join), max_size=most).map("".join)
    return st.tuples(ended, lines).map("".join)


short_texts, texts = joined(short_lines, 25), joined(other_lines, 25)
places = st.integers(0, 1000)  # per mille of a text
keystrokes = st.sampled_from([*"ab1_.,= \t\n\n(['", "\r\n", "\r", "é", "😀", "    ", "word", "\f"])
operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("type"), st.just(0), keystrokes),
    st.tuples(st.just("type"), st.just(0), keystrokes),
    st.tuples(st.just("type"), st.just(0), joined(other_lines, 6)),
    st.tuples(st.just("backspace"), st.integers(1, 12), st.just("")),
    st.tuples(st.just("insert"), places, joined(short_lines, 3)),
    st.tuples(st.just("delete"), places, st.sampled_from(["1", "2", "10", "60", "400"])),
    st.tuples(st.just("jump"), places, st.just("")),
    st.tuples(st.just("undo"), st.just(0), st.just("")),
)


class Editor:
    """A text with a cursor, edited as a person would."""

    def __init__(self, text: str, cursor: int) -> None:
        self.text, self.cursor = text, cursor
        self._undo: list[tuple[str, int]] = []

    def do(self, operation: Operation) -> None:
        kind, number, text = operation
        place = len(self.text) * number // 1000
        if kind == "type":
            self._replace(self.cursor, self.cursor, text)
        elif kind == "backspace":
            self._replace(max(0, self.cursor - number), self.cursor, "")
        elif kind == "insert":
            self._replace(place, place, text)
        elif kind == "delete":
            self._replace(place, min(len(self.text), place + int(text)), "")
        elif kind == "jump":
            self.cursor = place
        elif self._undo:
            self.text, self.cursor = self._undo.pop()

    def _replace(self, start: int, end: int, new: str) -> None:
        self._undo.append((self.text, self.cursor))
        self.text = self.text[:start] + new + self.text[end:]
        if self.cursor >= end:
            self.cursor += len(new) - (end - start)
        elif self.cursor > start:
            self.cursor = start + len(new)


def histories(text: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, int, list[Operation]]]:
    return st.tuples(text, places, st.lists(operations, max_size=12))


def states(text: str, place: int, history: list[Operation]) -> Iterator[tuple[str, int]]:
    """The text and cursor before and after each operation."""
    editor = Editor(text, len(text) * place // 1000)
    yield editor.text, editor.cursor
    for operation in history:
        editor.do(operation)
        yield editor.text, editor.cursor


def parts(plan: Plan) -> tuple[int, str, str, str, str, bool]:
    return plan.start, plan.head, plan.typed, plan.rest, plan.tail, plan.rest_closes


def frame(plan: Plan) -> tuple[int, str, str]:
    return plan.start, plan.head, plan.tail


def assert_is_the_document(plan: Plan, text: str, cursor: int) -> None:
    anchor = plan.start + len(plan.head)
    assert 0 <= plan.start <= anchor <= cursor == anchor + len(plan.typed)
    before = plan.head + plan.typed
    assert text[plan.start : cursor] == before
    right = re.match(r"[^\r\n]*", text[cursor:])
    assert right and plan.rest == right[0]
    assert plan.rest_closes == all(c in CLOSERS or c.isspace() for c in plan.rest)
    end = re.match(r"\r\n|\r|\n|", text[cursor + len(plan.rest) :])
    assert end
    kept_out = plan.rest + end[0] if plan.rest_closes else ""
    assert text.startswith(before + kept_out + plan.tail, plan.start)
    if not plan.rest_closes:
        assert plan.tail.startswith(plan.rest) or plan.rest.startswith(plan.tail)


def is_at_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] in "\r\n"


def line_around(text: str, at: int) -> str:
    left, right = re.split(r"[\r\n]", text[:at])[-1], re.split(r"[\r\n]", text[at:])[0]
    return left + right


@counters
@unhurried
@given(session=histories(texts))
def test_the_prompt_is_the_document_after_every_edit(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner = Planner(budget, pieces)
    for text, cursor in states(*session):
        assert_is_the_document(planner.plan(text, cursor), text, cursor)


@counters
@unhurried
@given(session=histories(texts))
def test_head_and_tail_keep_to_their_budgets(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner, count = Planner(budget, pieces), Window(budget, pieces).count
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor)
        assert count(plan.head) <= budget.head
        assert count(plan.tail) <= budget.tail


@counters
@unhurried
@given(session=histories(texts))
@example(session=("0\n0\n    return a", 125, [("delete", 0, "1"), ("insert", 0, "    ")]))
def test_the_anchor_starts_a_line_unless_the_line_is_too_long_to_be_typed(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner, count, most = Planner(budget, pieces), Window(budget, pieces).count, budget.typed
    inside = False
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor)
        anchor = plan.start + len(plan.head)
        line = line_around(text, anchor)
        too_long = count(line) > most or len(line) > most * MOST_CHARACTERS
        since_it_was_too_long = inside and plan.frame == "kept"
        inside = not is_at_line_start(text, anchor)
        assert not inside or too_long or since_it_was_too_long


@counters
@unhurried
@given(session=histories(texts))
def test_typed_keeps_to_its_budget_or_to_a_piece_of_a_too_long_line(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner, count, most = Planner(budget, pieces), Window(budget, pieces).count, budget.typed
    for text, cursor in states(*session):
        typed = planner.plan(text, cursor).typed
        assert count(typed) <= most or len(typed) <= max(most, most // 2 + 255)


def test_the_anchor_in_a_too_long_line_is_the_same_for_cursors_close_by() -> None:
    text = "first\n" + "a, b, " * 2000
    anchors = {
        cursor: plan.start + len(plan.head)
        for cursor in range(5000, 5256)
        for plan in [Planner(SMALL, cheap).plan(text, cursor)]
    }
    assert len(set(anchors.values())) <= 256 // ANCHOR_STEP + 1
    assert all(anchor < cursor for cursor, anchor in anchors.items())


@counters
@unhurried
@given(session=histories(texts))
def test_a_tail_never_stays_too_short(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner, window = Planner(budget, pieces), Window(budget, pieces)
    for text, cursor in states(*session):
        plan = planner.plan(text, cursor)
        at = cursor if not plan.rest_closes else cursor + len(plan.rest)
        if plan.rest_closes:
            at += len(re.match(r"\r\n|\r|\n|", text[at:])[0])  # pyright: ignore[reportOptionalSubscript]
        reaches = at + len(plan.tail) == len(text) or 2 * window.count(plan.tail) >= budget.tail
        assert reaches or plan.tail == window.tail(text, at)


@counters
@unhurried
@given(session=histories(texts))
def test_planning_again_changes_nothing(
    pieces: Pieces, budget: Budget, session: tuple[str, int, list[Operation]]
) -> None:
    planner = Planner(budget, pieces)
    for text, cursor in states(*session):
        assert parts(planner.plan(text, cursor)) == parts(planner.plan(text, cursor))


@fewer
@given(st.lists(st.tuples(st.text(st.characters(), max_size=80), places), min_size=1, max_size=5))
@example([("\na\rb", 0)])
@example([("x = '\ud83d", 1000), ("\udc00\r\ud83d", 500)])
def test_any_text_and_any_cursor_can_be_planned(visits: list[tuple[str, int]]) -> None:
    planner = Planner(Budget(24, 8), TOKENIZER.pieces)
    for text, place in visits:
        cursor = len(text) * place // 1000
        assert_is_the_document(planner.plan(text, cursor), text, cursor)


@counters
@unhurried
@given(text=short_texts, place=places, typing=st.lists(keystrokes, max_size=15))
def test_r1_typing_forward_keeps_the_frame(
    pieces: Pieces, budget: Budget, text: str, place: int, typing: list[str]
) -> None:
    editor = Editor(text, len(text) * place // 1000)
    planner, count = Planner(budget, pieces), Window(budget, pieces).count
    first = planner.plan(editor.text, editor.cursor)
    for key in typing:
        editor.do(("type", 0, key))
        plan = planner.plan(editor.text, editor.cursor)
        if count(first.typed + "".join(typing)) <= budget.typed:
            assert plan.frame == "kept"
            assert frame(plan) == frame(first)


def test_r1_typing_past_the_budget_moves_what_was_typed_into_the_head() -> None:
    planner = Planner(SMALL, cheap)
    text = "first\n"
    plan = planner.plan(text, len(text))
    for _ in range(SMALL.typed):
        text += "word\n"
        plan = planner.plan(text, len(text))
        assert Window(SMALL, cheap).count(plan.typed) <= SMALL.typed
    assert len(plan.head) > len("first\n")


DIGITS = "31415926535897932384626433832795028841971693993751" * 5


@pytest.mark.parametrize(
    "below",
    ["    # digits of pi " + DIGITS[:150] + "\n" + f"    {DIGITS}\n" * 9 + ")\n", f"#{'-' * 78}\n" * 90],
    ids=["a line of many tokens that just does not fit", "lines of few tokens for their length"],
)
def test_r1_holds_above_text_that_does_not_fill_the_tail(below: str) -> None:
    above, planner = "first = 1\nPI = (", Planner(Budget(), TOKENIZER.pieces)
    first = planner.plan(f"{above}\n{below}", len(above))
    for typed in (" ", " #", " # one\n", " # one\n    2"):
        plan = planner.plan(f"{above}{typed}\n{below}", len(above + typed))
        assert frame(plan) == frame(first)
        assert plan.frame == "kept"


@counters
@unhurried
@given(text=short_texts, place=places, typing=st.lists(keystrokes, min_size=1, max_size=8), data=st.data())
def test_r1_backspace_within_typed_keeps_the_frame(
    pieces: Pieces, budget: Budget, text: str, place: int, typing: list[str], data: st.DataObject
) -> None:
    cursor = len(text) * place // 1000
    planner, count = Planner(budget, pieces), Window(budget, pieces).count
    first = planner.plan(text, cursor)
    word = "".join(typing)
    if count(first.typed + word) > budget.typed:
        return
    planner.plan(text[:cursor] + word + text[cursor:], cursor + len(word))
    kept = word[: data.draw(st.integers(0, len(word)))]
    plan = planner.plan(text[:cursor] + kept + text[cursor:], cursor + len(kept))
    assert plan.frame == "kept"
    assert frame(plan) == frame(first)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_r1_backspace_keeps_the_frame_up_to_its_anchor_some_lines_above(line_end: str) -> None:
    lines = [f"line_{i} = {i}{line_end}" for i in range(9)]
    above, below = "".join(lines[:5]), "".join(lines[5:])
    planner = Planner(Budget(400, 100), TOKENIZER.pieces)
    first = planner.plan(above + "x" + below, len(above) + 1)
    assert (first.head, first.typed) == ("".join(lines[: 5 - LEAD]), "".join(lines[5 - LEAD : 5]) + "x")
    for left in range(5, 5 - LEAD, -1):
        joined = "".join(lines[:left]).removesuffix(line_end)
        plan = planner.plan(joined + below, len(joined))
        assert (plan.frame, plan.head) == ("kept", first.head)
    joined = first.head.removesuffix(line_end)
    assert planner.plan(joined + below, len(joined)).frame == "new"


@counters
@unhurried
@given(
    text=short_texts,
    place=places,
    pair=st.sampled_from(["()", "[]", "{}", '""', "''", "``", "<>", "()\"'"]),
    inside=st.sampled_from(["", "x", "a, b"]),
)
def test_r4_an_auto_closed_pair_changes_nothing(
    pieces: Pieces, budget: Budget, text: str, place: int, pair: str, inside: str
) -> None:
    cursor = len(text) * place // 1000
    planner, count = Planner(budget, pieces), Window(budget, pieces).count
    first = planner.plan(text, cursor)
    if not first.rest_closes or count(first.typed + pair[0] + inside) > budget.typed:
        return
    opened = text[:cursor] + pair[0] + inside
    plan = planner.plan(opened + pair[1:] + text[cursor:], len(opened))
    assert plan.frame == "kept"
    assert frame(plan) == frame(first)
    assert plan.typed == first.typed + pair[0] + inside
    assert plan.rest_closes


def test_r4_code_right_of_the_cursor_begins_the_tail() -> None:
    plan = Planner(MEDIUM, TOKENIZER.pieces).plan("a = f(b)\nc\n", len("a = f"))
    assert (plan.typed, plan.rest, plan.tail, plan.rest_closes) == ("a = f", "(b)", "(b)\nc\n", False)


def test_r4_closers_right_of_the_cursor_stay_out_of_the_prompt() -> None:
    plan = Planner(MEDIUM, TOKENIZER.pieces).plan("a = f(b)\r\nc\n", len("a = f(b"))
    assert (plan.typed, plan.rest, plan.tail, plan.rest_closes) == ("a = f(b", ")", "c\n", True)


def numbered(count: int) -> str:
    return "".join(f"value_{i} = {i}\n" for i in range(count))


@counters
@fewer
@given(typing=st.lists(st.one_of(keystrokes, short_texts), max_size=30), text=short_texts)
def test_r2_the_window_moves_only_where_the_head_outgrows_its_budget(
    pieces: Pieces, budget: Budget, typing: list[str], text: str
) -> None:
    planner, count = Planner(budget, pieces), Window(budget, pieces).count
    last = planner.plan(text, len(text))
    for key in typing:
        text += key
        plan = planner.plan(text, len(text))
        if plan.start != last.start:
            anchor = plan.start + len(plan.head)
            assert count(text[last.start : anchor]) > budget.head
            assert count(plan.head) <= budget.head * 0.6
            assert is_at_line_start(text, plan.start)
        last = plan


@counters
@unhurried
@given(data=st.data(), new=short_texts)
def test_r2_edits_before_the_window_do_not_move_it(
    pieces: Pieces, budget: Budget, data: st.DataObject, new: str
) -> None:
    text, below = numbered(60), "".join(f"other_{i} = {i}\n" for i in range(30))
    planner = Planner(budget, pieces)
    first = planner.plan(text + below, len(text))
    start = data.draw(st.integers(0, first.start - 1))
    end = data.draw(st.integers(start, first.start - 1))
    edited = text[:start] + new + text[end:]
    plan = planner.plan(edited + below, len(edited))
    moved = len(edited) - len(text)
    assert plan.frame == "kept"
    assert frame(plan) == (first.start + moved, first.head, first.tail)
    later = planner.plan(edited + below, len(edited) + below.index("other_2"))
    assert later.frame == "new"
    assert later.start == first.start + moved


def test_a_tail_is_renewed_after_going_up_through_typed_lines() -> None:
    above, planner = numbered(5), Planner(MEDIUM, TOKENIZER.pieces)
    planner.plan(above, len(above))
    written = above + "one = 1\ntwo = 2\nthree = 3"
    assert planner.plan(written, len(written)).frame == "kept"
    plan = planner.plan(written, len(above + "one"))
    assert plan.tail.endswith("two = 2\nthree = 3")


def test_a_tail_is_renewed_after_text_is_appended_below() -> None:
    above, planner = numbered(5), Planner(MEDIUM, TOKENIZER.pieces)
    assert planner.plan(above, len(above)).tail == ""
    plan = planner.plan(above + "\nlast = 1\n", len(above))
    assert plan.tail == "last = 1\n"


def test_an_anchor_above_the_last_windows_start_begins_a_line_when_text_is_inserted_above() -> None:
    text, planner = numbered(60), Planner(SMALL, cheap)
    start = planner.plan(text, text.index("value_50")).start
    assert start > 0
    planner.plan(text, start)
    longer, cursor = "# new\n" + text, len("# new\n") + start
    plan = planner.plan(longer, cursor)
    assert is_at_line_start(longer, plan.start) and is_at_line_start(longer, plan.start + len(plan.head))
    assert longer[plan.start : cursor] == plan.head + plan.typed


def test_a_frame_is_found_again_after_the_same_text_moved_many_lines() -> None:
    text, planner = numbered(60), Planner(SMALL, cheap)
    cursor = text.index("value_40")
    first = planner.plan(text, cursor)
    pasted = "pasted = 0\n" * 500
    plan = planner.plan(pasted + text, len(pasted) + cursor)
    assert plan.frame == "kept"
    assert frame(plan) == (first.start + len(pasted), first.head, first.tail)


def test_two_planners_make_the_same_plans_of_the_same_history() -> None:
    text = numbered(30)
    visits = [(text, 40), (text, 60), (text[:50] + "x" + text[50:], 51), (text, 5), (text, len(text))]
    one, other = Planner(SMALL, cheap), Planner(SMALL, cheap)
    assert [one.plan(*visit) for visit in visits] == [other.plan(*visit) for visit in visits]


@pytest.mark.parametrize("line", ["x", "0, ", "y = 1\n"], ids=["one word", "one line", "many lines"])
def test_a_huge_text_is_not_tokenized_as_a_whole(line: str) -> None:
    seen = [0]

    def measured(text: str) -> list[tuple[str, int]]:
        seen.append(len(text))
        return cheap(text)

    text, planner = line * (1_000_000 // len(line)), Planner(Budget(), measured)
    for cursor in (len(text) // 2, len(text) // 2 + 1, len(text), 3):
        planner.plan(text, cursor)
    planner.plan("", 0)
    planner.plan(text, len(text))
    assert max(seen) <= 10 * Budget().head
