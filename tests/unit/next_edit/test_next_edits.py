"""What holds for any history: offers follow the pattern, random edits bring none, and what was refused stays away."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from efim_ls.next_edit.changes import line_changes
from efim_ls.next_edit.pattern import Pattern, occurrences
from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.next_edit.tokens import balance, tokens
from tests.unit.edited import Drawn, Edited

NAMES = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
CALLS = ("load", "open_file", "self.get", "Path")
CALL = st.sampled_from(CALLS)
OTHER_LINES = st.sampled_from(["", "    return None", "x = 1", "for each in found:", "# see above", "print('load')"])


@st.composite
def repeated(draw: st.DrawFn) -> tuple[Edited, int]:
    """A text with the same call on several lines, which was replaced on the first ones; and how many are left."""
    old, new = draw(CALL), draw(NAMES)
    assume(new not in old)
    calls, edits = draw(st.integers(3, 6)), 2
    text, at = "", list[int]()
    for number in range(calls):
        text += "".join(f"{line}\n" for line in draw(st.lists(OTHER_LINES, max_size=3)))
        at.append(len(text) + len("a0 = "))
        text += f"a{number} = {old}({draw(NAMES)})\n"
    edited = Edited(text, draw(st.sampled_from(["python", "go", "typescript", "rust", "lua"])))
    for each in at[:edits]:
        edited.replace(Drawn(each, old, new))
    return edited, calls - edits


def count(edited: Edited, pattern: Pattern) -> int:
    return len(list(occurrences(pattern, edited.document, 0)))


@given(repeated())
def test_each_edit_that_is_taken_leaves_one_place_less(case: tuple[Edited, int]):
    edited, left = case
    edits = NextEdits(edited.history)
    pattern = Pattern.of([each.change for each in line_changes(edited.document, edited.history.recent())])
    counts = [count(edited, pattern)]
    while offered := edits.propose(edited.document, edited.cursor):
        before = balance(tokens(edited.document.text))
        edits.accept(offered)
        edited.take(offered)
        counts.append(count(edited, pattern))
        assert balance(tokens(edited.document.text)) == before
    assert all(before - after == 1 for before, after in pairwise(counts))
    assert 2 <= len(counts) <= left + 1


@given(st.lists(st.tuples(st.integers(0, 11), NAMES), min_size=1, max_size=8, unique_by=lambda each: each[1]), NAMES)
def test_unrelated_edits_bring_nothing(typed: list[tuple[int, str]], word: str):
    """Each line gets another word behind it, key by key."""
    edited = Edited("".join(f"{word}{number} = call({number})\n" for number in range(12)), "python")
    edits = NextEdits(edited.history)
    for number, added in typed:
        line_end = edited.document.offset(number, 1000, "utf-32")
        for key, character in enumerate(f" + {added}"):
            edited.edit(line_end + key, 0, character, pause=0.1 if key else 20)
            assert edits.propose(edited.document, edited.cursor) is None


@given(repeated())
def test_what_was_refused_is_not_offered_again(case: tuple[Edited, int]):
    edited, left = case
    edits, refused = NextEdits(edited.history), list[ProposedEdit]()
    while offered := edits.propose(edited.document, edited.cursor):
        assert (offered.start, offered.added) not in {(each.start, each.added) for each in refused}
        edits.refuse(offered)
        refused.append(offered)
    assert 1 <= len(refused) <= min(left, 2)


@given(repeated())
def test_undoing_an_edit_that_was_taken_refuses_it(case: tuple[Edited, int]):
    edited, _ = case
    edits = NextEdits(edited.history)
    taken, offered = edited.take_and_undo(edits)
    assert offered is None or offered.start != taken.start


def test_two_cursors_that_type_a_word_bring_nothing():
    edited = Edited("a = n + 1\nb = n + 2\nc = n + 3\n", "python")
    edits = NextEdits(edited.history)
    for number, key in enumerate("um"):
        edited.edit(5 + number, 0, key, pause=1.0)
        edited.edit(15 + 2 * number + 1, 0, key, pause=0.0)
        assert edits.propose(edited.document, edited.cursor) is None


def test_lines_that_are_left_and_edited_again_in_turn_bring_nothing():
    edited = Edited("a = n + 1\nb = n + 2\nc = nu + 3\n", "python")
    for number, key in enumerate("um"):
        edited.edit(5 + number, 0, key, pause=1.0)
        edited.edit(15 + 2 * number + 1, 0, key, pause=1.0)
    assert NextEdits(edited.history).propose(edited.document, edited.cursor) is None


def test_a_new_line_ends_what_is_offered():
    edited = Edited("a = load(1)\nb = load(2)\nc = load(3)\n", "python")
    for at in (4, 16):
        edited.replace(Drawn(at, "load", "read"))
    edited.edit(len(edited.document.text), 0, "\n")
    assert NextEdits(edited.history).propose(edited.document, edited.cursor) is None


def test_the_next_place_of_many_is_offered():
    above, calls = "self.load = 1\n" * 100, [f"a{number} = load({number})\n" for number in range(100)]
    edited = Edited(above + "".join(calls), "python")
    for at in (len(above), len(above) + len(calls[0])):
        edited.replace(Drawn(at + len("a0 = "), "load", "read"))
    offered = NextEdits(edited.history).propose(edited.document, edited.cursor)
    assert offered and edited.document.line_of(offered.start) == 102


def test_an_edit_elsewhere_ends_what_is_offered():
    edited = Edited("a = load(1)\nb = load(2)\nc = load(3)\nd = 4\n", "python")
    edits = NextEdits(edited.history)
    for at in (4, 16):
        edited.replace(Drawn(at, "load", "read"))
    assert edits.propose(edited.document, edited.cursor)
    edited.edit(len(edited.document.text) - 2, 1, "5")
    assert edits.propose(edited.document, edited.cursor) is None


def test_what_was_typed_and_taken_back_brings_nothing():
    edited = Edited("a = load(1)\nb = load(2)\n", "python")
    edited.replace(Drawn(4, "load", "read"))
    edited.edit(4, 4, "load")
    assert NextEdits(edited.history).propose(edited.document, edited.cursor) is None
