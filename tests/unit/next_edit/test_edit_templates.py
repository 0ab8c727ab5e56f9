"""Templates of two changes whose tokens differ: they make of both lines what these became, and are offered."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.next_edit.templates.template import EditTemplate, Rewritten, template_of
from efim_ls.next_edit.tokens import balance, tokens
from tests.unit.edited import Drawn, Edited

NAMES = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
EXPRESSIONS = st.recursive(
    NAMES | st.sampled_from(["1", "'a, b'", "[]"]),
    lambda inside: st.one_of(
        st.tuples(NAMES, inside).map(lambda each: f"{each[0]}({each[1]})"),
        st.tuples(inside, inside).map(lambda each: f"[{each[0]}, {each[1]}]"),
        st.tuples(NAMES, NAMES).map(".".join),
    ),
    max_leaves=4,
)
# Lines before and after a change that carries two expressions along.
SHAPES = st.sampled_from([
    ("self.assertEqual({0}, {1})", "assert {0} == {1}"),
    ("total = get({0}, {1}).value", "total = await get({0}, {1})"),
    ("show({0}, old, {1})", "print({1}, {0}, new, {0})"),
    ("    return load({0})[{1}]", "    return wrap(load({0})[{1}])"),
    ('"{{}}".format({0}, {1})', 'f"{{{0}}}"'),
])  # fmt: skip
LINES = st.text(st.sampled_from([*"ab.,;()[]{}\"' ="]), max_size=14)


def filled(shape: tuple[str, str], *held: str) -> tuple[str, str]:
    before, after = (each.format(*held) for each in shape)
    return before, after


def learned(*examples: tuple[str, str]) -> EditTemplate | None:
    one, other = (Rewritten(tokens(before), tokens(after)) for before, after in examples)
    return template_of(one, other)


def made(template: EditTemplate, line: str) -> list[str]:
    return ["".join((*each.left, *each.added, *each.right)) for each in template.changes(tokens(line))]


@given(SHAPES, st.lists(EXPRESSIONS, min_size=4, max_size=4, unique=True), NAMES, NAMES)
def test_what_was_carried_along_is_carried_along_again(
    shape: tuple[str, str], held: list[str], one: str, other: str
) -> None:
    assume(one != other)
    examples = filled(shape, *held[:2]), filled(shape, *held[2:])
    template = learned(*examples)
    if all(each.isalpha() for each in held):
        before, after = filled(shape, one, other)
        assert template and made(template, before) == [after]
    for before, after in examples if template else ():
        assert template and after in made(template, before)


@given(st.lists(LINES, min_size=4, max_size=4))
def test_a_template_makes_of_its_examples_what_they_became(lines: list[str]) -> None:
    examples = (lines[0], lines[1]), (lines[2], lines[3])
    template = learned(*examples)
    if template:
        assert all(after in made(template, before) for before, after in examples)


@given(SHAPES, st.lists(EXPRESSIONS, min_size=4, max_size=4, unique=True), LINES)
def test_what_holes_hold_has_its_brackets_closed(shape: tuple[str, str], held: list[str], line: str) -> None:
    template = learned(filled(shape, *held[:2]), filled(shape, *held[2:]))
    if template is None:
        return
    for each in template.changes(tokens(f"{line}{filled(shape, 'a', 'b')[0]}{line}")):
        assert balance(each.removed) == balance(tuple(part for part in template.removed if isinstance(part, str)))


@pytest.mark.parametrize(
    ("examples", "drawn"),
    [
        ((("y = x.foo", "y = wrap(x.foo)"), ("z = a.b.foo", "z = wrap(a.b.foo)")), ("<0>.foo", "wrap(<0>.foo)")),
        ((("f(a, b)", "f(a, b, x=b)"), ("f(c, d.e)", "f(c, d.e, x=d.e)")), ("<0>)", "<0>, x=<0>)")),
        ((("{ a: a }", "{ a }"), ("{ b: b }", "{ b }")), ("<0>: <0>", "<0>")),
        ((("x = f(1, 2)", "x = [1, 2]"), ("x = f(3)", "x = [3]")), None),
        ((("f(1, 2)", "[1, 2]"), ("f(3, 4, 5)", "[3, 4, 5]")), ("f(<0>)", "[<0>]")),
        ((("a = 0.1", "a = n(0.1)"), ("a = 2.5", "a = n(2.5)")), ("= <0>", "= n(<0>)")),
        ((("return a + b", "return n(a + b)"), ("return c", "return n(c)")), ("return <0>\n", "return n(<0>)\n")),
        ((("is_true(a)", "assert a"), ("is_true(f(b))", "assert f(b)")), ("is_true(<0>)", "assert <0>")),
        ((("old(a)", "new(a, 1)"), ("old(b)", "new(b, 2)")), None),
        ((("a", "b"), ("c", "b")), None),
    ],
)
def test_the_narrowest_template_is_learned(
    examples: tuple[tuple[str, str], tuple[str, str]], drawn: tuple[str, str] | None
) -> None:
    template = learned(*examples)
    assert (template.drawn if template else None) == drawn


@st.composite
def transformed(draw: st.DrawFn) -> tuple[Edited, int]:
    """A text with calls of different arguments, the first two of which were rewritten; and how many are left."""
    names = draw(st.lists(NAMES, min_size=3, max_size=6, unique=True))
    assume(not {"get", "value", "await"}.intersection(names))
    text, at = "", list[int]()
    for number, name in enumerate(names):
        text += "x = 1\n" * draw(st.integers(0, 2))
        at.append(len(text) + len("a0 = "))
        text += f"a{number} = get({name}).value\n"
    edited = Edited(text, draw(st.sampled_from(["python", "typescript", "rust", "lua"])))
    for each, name in zip(at[:2], names, strict=False):
        edited.replace(Drawn(each, f"get({name}).value", f"await get({name})"))
    return edited, len(names) - 2


@given(transformed())
def test_each_edit_that_is_taken_leaves_one_place_less(case: tuple[Edited, int]) -> None:
    edited, left = case
    edits, counts = NextEdits(edited.history), [edited.document.text.count(").value")]
    while offered := edits.propose(edited.document, edited.cursor):
        assert offered.rule == "transform"
        edits.accept(offered)
        edited.take(offered)
        counts.append(edited.document.text.count(").value"))
    assert counts[0] == left and counts[-1] == 0
    assert all(before - after == 1 for before, after in pairwise(counts))


@given(transformed())
def test_a_change_that_was_refused_twice_is_not_offered_anywhere(case: tuple[Edited, int]) -> None:
    edited, left = case
    edits, refused = NextEdits(edited.history), list[ProposedEdit]()
    while offered := edits.propose(edited.document, edited.cursor):
        assert offered.start not in {each.start for each in refused}
        edits.refuse(offered)
        refused.append(offered)
    assert len(refused) == min(left, 2)
    assert edits.propose(edited.document, len(edited.document.text)) is None


@given(transformed())
def test_undoing_an_edit_that_was_taken_refuses_it(case: tuple[Edited, int]) -> None:
    edited, _ = case
    edits = NextEdits(edited.history)
    taken, offered = edited.take_and_undo(edits)
    assert offered is None or offered.start != taken.start
