"""What is left of a suggestion as its user types through it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.suggestions.recent import MOST_SUGGESTIONS, NEARBY, Asked, RecentSuggestions
from efim_ls.completion.suggestions.sure import ShownPart
from efim_ls.request import Request
from model_runtime.counts.snapshot import CountsView
from model_runtime.shelves.excerpts.excerpts import Excerpts
from tests.unit.likelihoods import suggestion

BEFORE, AFTER = "def f():\n    ", "\n\nprint(f())\n"

texts = st.text("ab \n(é😀", max_size=8)
suggestions = st.text("ab \n(é😀", min_size=1, max_size=8)


def at(made: RecentSuggestions, before: str, after: str = AFTER, others: tuple[str, ...] = ()) -> Asked:
    return made.ask(Request("", before + after, len(before), others=others))


def shown(*suggested: str, before: str = BEFORE, after: str = AFTER) -> RecentSuggestions:
    made = RecentSuggestions()
    for each in suggested:
        made.add(at(made, before, after), each)
    return made


def left(made: RecentSuggestions, before: str, after: str = AFTER, others: tuple[str, ...] = ()) -> str:
    found = at(made, before, after, others).left
    return found.text if found else ""


def test_where_nothing_was_suggested_nothing_is_left() -> None:
    assert left(RecentSuggestions(), BEFORE) == ""


@given(before=texts, after=texts, suggested=suggestions)
def test_at_every_character_of_a_suggestion_what_is_left_is_its_end(before: str, after: str, suggested: str) -> None:
    made = shown(suggested, before=before, after=after)
    for typed in [*range(len(suggested)), *reversed(range(len(suggested)))]:
        assert left(made, before + suggested[:typed], after) == suggested[typed:]


@given(before=texts, first=suggestions, more=suggestions)
def test_what_is_left_of_a_word_has_its_source(before: str, first: str, more: str) -> None:
    text, made = first + more, RecentSuggestions()
    word = ShownPart(text, "", 0.75, ((text, 0.75),), 0.5, "a word of this file, once")
    made.add(at(made, before), text, word=word)
    rest = at(made, before + first).left
    assert rest and rest.word == replace(word, shown=more, words=((more, 0.75),))
    made.add(at(made, before), text)
    rest = at(made, before + first).left
    assert rest and rest.word is None, "the model has guessed it since"
    made.add(at(made, before + first), more, word=word)
    rest = at(made, before + first).left
    assert rest and rest.word == replace(word, shown=more, words=((more, 0.75),))


def test_of_a_suggestion_that_was_typed_out_nothing_is_left() -> None:
    assert left(shown("return 1"), BEFORE + "return 1") == ""
    assert left(shown("return 1"), BEFORE + "return 1 ") == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE + "x", AFTER),
        (BEFORE + "return 2", AFTER),
        (BEFORE[:-1], AFTER),
        ("# new\n" + BEFORE, AFTER),
        (BEFORE, AFTER + "x"),
        (BEFORE, AFTER[1:]),
        (BEFORE + "ret", ")" + AFTER),
    ],
    ids=["another key", "it diverges", "before it", "text above", "text below", "less below", "a closer after it"],
)
def test_elsewhere_and_in_another_text_nothing_is_left(before: str, after: str) -> None:
    assert left(shown("return 1"), before, after) == ""


def test_a_diverging_key_that_is_taken_back_brings_the_suggestion_back() -> None:
    made = shown("return 1")
    assert left(made, BEFORE + "return x") == ""
    assert left(made, BEFORE + "return ") == "1"


def test_a_place_has_the_last_suggestion_that_was_made_there() -> None:
    assert left(shown("return 1", "pass", "return 2"), BEFORE + "return ") == "2"
    assert left(shown("return 1", "pass", "return 2"), BEFORE + "pa") == "ss"
    assert left(shown("return 1", "pass", "return 1"), BEFORE) == "return 1"
    assert left(shown("return 1", "pass", "return 2", "return 1"), BEFORE + "return ") == "1"


def test_one_that_was_typed_out_does_not_hide_an_older_one_that_goes_on() -> None:
    assert left(shown("return 1 + 1", "return"), BEFORE + "return") == " 1 + 1"


def test_sixteen_suggestions_are_remembered_and_the_oldest_goes() -> None:
    made = shown(*(f"{i:02}." for i in range(MOST_SUGGESTIONS + 1)))
    assert MOST_SUGGESTIONS == 16
    assert [i for i in range(MOST_SUGGESTIONS + 1) if left(made, f"{BEFORE}{i:02}")] == list(
        range(1, MOST_SUGGESTIONS + 1)
    )


def test_what_is_left_of_a_suggestion_at_each_key_does_not_push_it_out() -> None:
    made, suggested = shown("older"), "x" * (2 * MOST_SUGGESTIONS)
    for size in range(len(suggested)):
        made.add(at(made, BEFORE + suggested[:size]), suggested[size:])
    for size in reversed(range(len(suggested))):
        assert left(made, BEFORE + suggested[:size]) == suggested[size:]
    assert left(made, BEFORE + "old") == "er"


def test_a_suggestion_made_again_counts_once_and_as_the_last() -> None:
    made = shown("first", *["again"] * (2 * MOST_SUGGESTIONS), "second")
    assert left(made, BEFORE + "fi") == "rst"
    made = shown("first", *(f"{i:02}" for i in range(MOST_SUGGESTIONS - 1)), "first", "new")
    assert left(made, BEFORE + "fi") == "rst"


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_it_is_typed_with_the_documents_line_ends(line_end: str) -> None:
    before, suggested = BEFORE.replace("\n", line_end), "if x:\n    return\n"
    made = shown(suggested, before=before)
    for size in range(len(suggested)):
        assert left(made, before + suggested[:size].replace("\n", line_end)) == suggested[size:]


def test_where_another_text_has_changed_nothing_is_left() -> None:
    made = RecentSuggestions()
    made.add(at(made, BEFORE, AFTER, ("one", "two")), "return 1")
    assert left(made, BEFORE + "re", AFTER, ("one", "two")) == "turn 1"
    assert left(made, BEFORE + "re", AFTER, ("one", "2")) == ""
    assert left(made, BEFORE + "re") == ""


def test_of_a_long_text_only_what_is_near_is_kept() -> None:
    before, after = "x" * 10 * NEARBY, "y" * 10 * NEARBY
    made = shown("return 1", before=before, after=after)
    assert left(made, before + "ret", after) == "urn 1"
    assert sum(len(each.before) + len(each.after) for each in made._suggestions) == 2 * NEARBY
    assert left(made, before[:-1] + "zret", after) == left(made, before + "ret", "z" + after[1:]) == ""


def test_line_ends_of_two_characters_may_make_what_is_typed_longer_than_the_suggestion() -> None:
    before, suggested = BEFORE.replace("\n", "\r\n"), "\n\n\n}"
    made = shown(suggested, before=before)
    typed = "\r\n\r\n\r\n"
    assert len(typed) > len(suggested)
    assert left(made, before + typed) == "}"


def test_what_is_left_is_kept_whatever_it_saw_and_stands_only_for_those_who_see_the_same() -> None:
    made, old, new = RecentSuggestions(), CountsView(1, list), CountsView(2, list)
    made.add(made.ask(Request("", BEFORE + AFTER, len(BEFORE), counts=old)), "return 1")
    asked = made.ask(Request("", f"{BEFORE}re{AFTER}", len(BEFORE) + 2, counts=new))
    assert [each.text for each in asked.remainders] == ["turn 1"]
    assert asked.left is None and not asked.is_typed_through
    before = asked.counting(old)
    assert before.left is not None and before.is_typed_through and before.request.counts is old
    other = before.showing(Excerpts(repository="other"))
    assert other.left is None and other.is_typed_through, "excerpts do not decide which counts are in effect"
    assert not made.ask(Request("", BEFORE + AFTER, len(BEFORE), counts=old)).is_typed_through, "nothing is typed"


def test_one_that_went_while_others_of_its_answer_were_added_is_added_again() -> None:
    made = shown("first", *(f"{i:02}" for i in range(MOST_SUGGESTIONS - 1)))
    asked = at(made, BEFORE)
    made.add(asked, "new")
    made.add(asked, "first")
    assert left(made, BEFORE + "fi") == "rst"


@pytest.mark.parametrize(
    ("guessed", "typed", "refuted"),
    [
        ("return 1", "", False),
        ("return 1", "ret", False),
        ("return 1", "ra", True),
        ("return 1", "raise", True),
        ("return 1", "raise x", False),
        ("return 1", "return 1x", True),
        ("return 1", "return 1.x", False),
        ("return 1", "return 1", False),
        ("return 1", "return 2", True),
    ],
)
def test_a_guess_is_refuted_where_its_word_goes_on_as_another(guessed: str, typed: str, refuted: bool) -> None:
    made = RecentSuggestions()
    for size in range(len(typed) + 1):
        asked = at(made, BEFORE + typed[:size])
        if size in (0, len("return ")):
            made.add(asked, guessed[size:], suggestion(guessed[size:]))
    assert at(made, BEFORE + typed).refuted == refuted
    assert not at(made, BEFORE + typed, AFTER + "x").refuted, "the file has changed"


def test_only_the_models_guesses_are_refuted() -> None:
    assert not at(shown("return 1"), BEFORE + "raise").refuted
