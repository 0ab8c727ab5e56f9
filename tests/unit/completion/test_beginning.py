"""How much of a suggestion is shown unasked, with probabilities that a person can check."""

from __future__ import annotations

import re
from itertools import cycle
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.balance import BalancedCode
from efim_ls.completion.suggestions.sure import CLOSERS, FURTHER_LINES, ends_statement, shown_part, with_closers
from model_runtime.engine.output import TextProbability, WordEnd


class Rated:
    """A text whose words have given probabilities, one after another; signs and blanks are certain."""

    def __init__(self, text: str, words: dict[str, float]) -> None:
        self.text, self._words, self.signs = text, words, dict[str, float]()

    def word_ends(self, start: int = 0) -> list[WordEnd]:
        """As a likelihood returns them."""
        found, joint = list[WordEnd](), 1.0
        for piece in re.finditer(r"\w+|[^\w\s]", self.text):
            if piece.end() > start:
                joint *= (self._words | self.signs).get(piece[0], 1.0)
                found.append(WordEnd(piece.end(), joint))
        return found


def shown(text: str, least: float, start: int = 0, divisible: bool = True, **words: float) -> tuple[str, str]:
    """What is shown and what is hidden."""
    made = shown_part(cast("TextProbability", Rated(text, words)), start, least, divisible)
    return made.shown, made.hidden


def test_what_is_shown_ends_before_the_word_that_makes_it_unlikely() -> None:
    assert shown("compile(r'x', flags)", 0.2, compile=0.95, x=0.1) == ("compile(r'", "x', flags)")
    assert shown("compile(r'x', flags)", 0.2, compile=0.95, x=0.9, flags=0.9) == ("compile(r'x', flags)", "")


def test_of_what_is_likely_enough_as_much_is_shown_as_is_worth_it() -> None:
    few, many = "sure(doubt)", "sure(doubt, and_then_much_more_that_is_certain)"
    assert shown(few, 0.2, sure=0.9, doubt=0.3) == ("sure(", "doubt)")
    assert shown(many, 0.2, sure=0.9, doubt=0.3) == (many, "")
    assert shown(many, 0.3, sure=0.9, doubt=0.3) == ("sure(", many.removeprefix("sure("))


def test_nothing_is_shown_if_not_even_its_first_word_is_likely() -> None:
    assert shown("spam.egg", 0.2, spam=0.19) == ("", "spam.egg")


def test_zero_shows_all() -> None:
    assert shown("if a:\n    b = [\n\n", 0, a=0.0001, b=0.0001) == ("if a:\n    b = [\n\n", "")


def test_once_a_doubtful_word_is_typed_the_rest_is_shown() -> None:
    assert shown("a = maybe.sure()", 0.5, maybe=0.4) == ("a =", " maybe.sure()")
    assert shown("a = maybe.sure()", 0.5, start=len("a = maybe"), maybe=1) == (".sure()", "")


def test_likely_closers_are_shown_with_what_they_close() -> None:
    sure, unsure = Rated("call(name):", {}), Rated("call(name):", {})
    sure.signs, unsure.signs = {")": 0.85}, {")": 0.75}
    shown_of = [shown_part(cast("TextProbability", each), 0, 0.2).shown for each in (sure, unsure)]
    assert shown_of == ["call(name):", "call(name"]


@pytest.mark.parametrize(
    "marked",
    [
        "json.loads(‸text)", "if isinstance(‸node, Name):", "print('(', ‸end)", "rows[‸0]", "f(a, ‸')')",
        "app.get(‸path);", "const { ‸name }", "func(w ‸http.Writer)", "vec![‸0; size]", "strtoll(text, &rest,‸ 10);",
        "name=$(‸basename $1)", "new Map<string, number>(‸[])",
    ],
)  # fmt: skip
def test_what_closes_a_bracket_on_its_line_is_shown_where_it_is_likely(marked: str) -> None:
    assert closers_shown(marked, CLOSERS) == marked.replace("‸", "")
    assert closers_shown(marked, CLOSERS - 0.01) == marked.partition("‸")[0].rstrip()


@pytest.mark.parametrize(
    "marked", ["total = ‸first + second", "f(')')‸ + g(x)", "f(‸\n    a,\n)", "f('(')‸ or g(')')"]
)
def test_where_nothing_is_open_or_closed_further_down_nothing_more_is_shown(marked: str) -> None:
    assert closers_shown(marked, 1.0) == marked.partition("‸")[0].rstrip()


def closers_shown(marked: str, chance: float) -> str:
    """Return how much is shown of a text whose words are certain up to a mark, and all that follows has a chance."""
    before, _, behind = marked.partition("‸")
    text, size = before + behind, len(before.rstrip())
    pieces = re.finditer(r"\w+|[^\w\s]", text)
    ends = [WordEnd(piece.end(), 1.0 if piece.end() <= size else chance) for piece in pieces]
    return text[: with_closers(text, 0, ends, next(end for end in ends if end.at == size)).at]


signs = st.sampled_from([*"()[]{}'\"a \n\\", "# ", ", "])


@given(
    text=st.lists(signs).map("".join),
    before=st.integers(0, 3),
    chances=st.lists(st.floats(0.7, 1), min_size=40),
    data=st.data(),
)
def test_only_what_closes_is_added_and_never_a_line(
    text: str, before: int, chances: list[float], data: st.DataObject
) -> None:
    text, ends, joint = "a(["[:before] + text + "a", list[WordEnd](), 1.0
    for piece, chance in zip(re.finditer(r"\w|[^\w\s]", text[before:]), cycle(chances), strict=False):
        joint *= chance
        ends.append(WordEnd(before + piece.end(), joint))
    shown = data.draw(st.sampled_from(ends))
    closed, own = with_closers(text, before, ends, shown), BalancedCode(text[before:], angles=False)
    assert closed in ends and closed.at >= shown.at and "\n" not in text[shown.at : closed.at]
    assert closed.probability >= CLOSERS * shown.probability
    if closed != shown:
        assert own.cut(shown.at - before, "").open and not own.cut(closed.at - before, "").open


def test_typing_through_a_suggestion_takes_nothing_back() -> None:
    made = Rated("one two(three, four) five", {"one": 0.9, "two": 0.7, "three": 0.8, "four": 0.6, "five": 0.5})
    starts = (0, 3, 7, 13, 19)
    ends = [start + len(shown_part(cast("TextProbability", made), start, 0.1).shown) for start in starts]
    assert ends == sorted(ends)


def test_a_further_line_must_be_likelier_than_the_first() -> None:
    least = 0.2
    level = least**FURTHER_LINES
    text = "first()\nsecond()\nthird()"
    assert shown(text, least, first=0.3, second=level + 0.01) == (text, "")
    assert shown(text, least, first=0.3, second=level - 0.01) == ("first()", "\nsecond()\nthird()")
    assert shown(text, least, first=0.3, second=level + 0.01, third=level - 0.01) == (
        "first()\nsecond()",
        "\nthird()",
    )


def test_a_further_line_is_not_shown_behind_an_unfinished_one() -> None:
    assert shown("first(doubt)\nsecond()", 0.2, doubt=0.1) == ("first(", "doubt)\nsecond()")


def test_several_lines_end_with_a_statement() -> None:
    assert shown("first(\n    second,\n)", 0.2) == ("first(\n    second,\n)", "")
    assert shown("first(\n    second,\n    third,\n)", 0.2, third=0.1) == ("first(", "\n    second,\n    third,\n)")
    assert shown("if first:\n    second()\nelse:\n    third()", 0.2, third=0.1)[0] == "if first:\n    second()"


def test_before_code_all_is_shown_or_nothing() -> None:
    assert shown("first, second, ", 0.2, divisible=False, second=0.1) == ("", "first, second, ")
    assert shown("first, second,", 0.2, divisible=False, second=0.9) == ("first, second,", "")
    assert shown("first, second, ", 0.2, divisible=False, second=0.9) == ("first, second, ", "")


def test_its_words_make_up_the_suggestion_with_their_own_probabilities() -> None:
    made = shown_part(cast("TextProbability", Rated("first(second)", {"first": 0.5, "second": 0.25})), 0, 0.2)
    assert made.words == (("first", 0.5), ("(", 1.0), ("second", 0.25), (")", 1.0))
    assert (made.shown, made.probability) == ("first(", 0.5)


probabilities = st.dictionaries(st.sampled_from("abc"), st.floats(0.01, 1))
texts = st.text("abc (\n", min_size=1, max_size=20).filter(str.strip)


@given(text=texts, words=probabilities, least=st.floats(0.01, 1))
def test_what_is_shown_and_what_is_hidden_are_the_suggestion(
    text: str, words: dict[str, float], least: float
) -> None:
    made = shown_part(cast("TextProbability", Rated(text, words)), 0, least)
    assert made.shown + made.hidden == text
    assert bool(made.shown) == (made.probability >= least)
    assert not made.shown[-1:].isspace()


@given(text=texts, words=probabilities, levels=st.lists(st.floats(0.01, 1), min_size=2, max_size=2))
def test_a_lower_level_shows_no_less(text: str, words: dict[str, float], levels: list[float]) -> None:
    made = cast("TextProbability", Rated(text, words))
    low, high = (shown_part(made, 0, least).shown for least in sorted(levels))
    assert low.startswith(high)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a = 1", True),
        ("f(", False),
        ("f(a,", False),
        ("if a:", False),
        ("x = '''", False),
        ("a = b \\", False),
        ("}", True),
    ],
)
def test_statements_end_where_nothing_is_open(text: str, ends: bool) -> None:
    assert ends_statement(text) is ends
