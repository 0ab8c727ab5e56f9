"""What holds for any definition: calls that follow it fit it, and what is read of lists is what was written."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.syntax.definitions import items, parameters
from tests.unit.edited import Drawn, Edited

NAMES = st.from_regex(r"[a-z]{3,6}_", fullmatch=True)
VALUES = st.sampled_from(["12", '"a, b"', "(1, 2)", "len([3, 4])", "{5: 6}", "'()'", "x.y[0]"])
TYPES = st.sampled_from(["string", "Map<string, number>", "(a: string, b: number) => void", "{ a: string, b: 1 }"])


def call(arguments: Sequence[str]) -> str:
    return f"    load({', '.join(arguments)})\n"


def begins(names: Sequence[str], number: int) -> int:
    """Where a parameter begins in the definition."""
    return len("def load(") + sum(len(name) + len(", ") for name in names[:number])


@st.composite
def called(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """The parameters of a definition, and what some calls pass for them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    passed = st.lists(VALUES, min_size=len(names), max_size=len(names))
    return names, draw(st.lists(passed, min_size=1, max_size=4))


def follow(text: str, change: Drawn) -> tuple[str, int]:
    """Change a definition and take what is offered; returns the text then, and how many edits were taken."""
    edited = Edited(text, "python")
    edited.replace(change)
    edits, taken = NextEdits(edited.history), 0
    while offered := edits.propose(edited.document, edited.cursor):
        edits.accept(offered)
        edited.take(offered)
        taken += 1
    return edited.document.text, taken


@given(called(), st.data())
def test_calls_follow_a_parameter_that_goes(case: tuple[list[str], list[list[str]]], data: st.DataObject):
    names, passed = case
    gone = data.draw(st.integers(0, len(names) - 1))
    head = f"def load({', '.join(names)}):\n    pass\n\n\ndef main(x):\n"
    start = begins(names, gone)
    left = names[:gone] + names[gone + 1 :]
    removed = names[gone] + ", " * (gone < len(left))
    if gone == len(left) > 0:
        start, removed = start - 2, f", {removed}"
    text, taken = follow(head + "".join(map(call, passed)), Drawn(start, removed, ""))
    assert text.splitlines()[5:] == "".join(call(each[:gone] + each[gone + 1 :]) for each in passed).splitlines()
    assert taken == len(passed)


@given(called(), st.data())
def test_calls_follow_a_parameter_that_comes(case: tuple[list[str], list[list[str]]], data: st.DataObject):
    names, passed = case
    at = data.draw(st.integers(0, len(names)))
    head = f"def load({', '.join(names)}):\n    pass\n\n\ndef main(x, cache):\n"
    new = Drawn(begins(names, at), "", "cache, ") if at < len(names) else Drawn(head.index(")"), "", ", cache")
    text, taken = follow(head + "".join(map(call, passed)), new)
    assert text.splitlines()[5:] == "".join(call([*each[:at], "cache", *each[at:]]) for each in passed).splitlines()
    assert taken == len(passed)


@given(
    st.lists(VALUES | st.sampled_from(["'('", '"\\""']), max_size=5), st.sampled_from(["python", "typescript", "go"])
)
def test_arguments_are_split_at_their_own_commas(values: list[str], language: str):
    text = ", ".join(values) + ") + f(1, 2)"
    found = items(text, 0, language)
    assert found and [each.text for each in found.items] == values
    assert all(text[each.start : each.end] == each.text for each in found.items)
    assert text[found.end :] == ") + f(1, 2)"


@given(st.lists(st.tuples(NAMES, TYPES), max_size=5))
def test_parameters_are_split_between_types(typed: list[tuple[str, str]]):
    text = ", ".join(f"{name}: {kind}" for name, kind in typed) + "): Map<string, string> {"
    found = parameters(text, 0, "typescript")
    assert found is not None and [each.name for each in found] == [name for name, _ in typed]
