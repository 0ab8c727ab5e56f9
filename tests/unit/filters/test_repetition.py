"""What holds of any suggestion after the filters against repetition."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.place import Place, lines_with
from efim_ls.completion.filters.repetition import (
    ENOUGH_TURNS,
    MOST_ALIKE,
    lines_again,
    near_copies,
    repetition,
    says_something,
    sentences_again,
    signs,
    turns_of_signs,
)

MOST_LINES = 12
NOWHERE = Place("", "", "", "")
words = st.sampled_from(["read", "the", "rows", "of", "a", "table", "again.", "x,"])
prose = st.lists(words, max_size=30).map(" ".join)
lines = st.sampled_from(
    ["    a = 1", "    b = 2", "    else:", "", "  ])", "    f(", "        a = 1,", "    )", "c", "d"]
)
code = st.lists(lines, max_size=6).map("\n".join)
rules = st.lists(st.sampled_from(["-", "--------", "===", "# ", "?", "M", "\n"]), max_size=8).map("".join)
texts = st.one_of(prose, code, code, rules)
befores = st.sampled_from(["", "    ", "    a = ", "# ", "----", "    # read the rows"])
places = st.builds(Place, befores, st.just(""), texts.map(lambda text: f"{text}\n"), texts)


@given(texts, places)
def test_a_suggestion_ends_earlier_or_stays(text: str, place: Place) -> None:
    for each in (signs, turns_of_signs, near_copies, lines_again, sentences_again):
        assert text.startswith(each(text, place)), each.__name__


@given(code, places)
def test_no_line_that_says_something_stands_twice(text: str, place: Place) -> None:
    cleaned = lines_again(text, place)
    said = [line.rstrip() for line in lines_with(cleaned, place) if says_something(line) and not line.endswith(",")]
    assert len(said) == len(set(said))


@given(texts, places)
def test_a_sign_stands_no_more_than_eight_times_but_in_rules(text: str, place: Place) -> None:
    cleaned, _ = clean(text, place, MOST_LINES)
    for run in re.finditer(rf"(\S)\1{{{MOST_ALIKE},}}", place.before + cleaned):
        if run.end() <= len(place.before):
            continue
        runs = {each[0] for each in re.finditer(r"(\S)\1*", place.above + place.below)}
        *above, line = (place.above + place.before + cleaned[: run.end() - len(place.before)]).split("\n")
        assert run[0] in runs or len(above[-1].rstrip()) == len(line)


@given(st.lists(words, min_size=5, max_size=5), st.lists(words, max_size=6))
def test_five_words_are_not_said_twice(said: list[str], between: list[str]) -> None:
    five = " ".join(said)
    cleaned, _ = clean(f"{five} {' '.join([*between, five])}", Place("# ", "", "", ""), MOST_LINES)
    assert cleaned.count(five) <= 1


@given(
    st.text("../?,[]{}()-=_*&| ", min_size=2, max_size=4).filter(lambda turn: len(set(turn)) > 1 and turn.strip()),
    st.integers(0, 6),
    st.integers(4, 20),
    st.integers(0, 3),
)
def test_signs_that_take_turns_come_to_an_end(turn: str, typed: int, said: int, part: int) -> None:
    endless, before, text = f"path = '{turn * 40}", f"path = '{turn * typed}", ""
    for _ in range(ENOUGH_TURNS + 2):  # accept whatever is suggested, of a model that never stops
        end = len(before) + said * len(turn) + part
        text = turns_of_signs(endless[len(before) : end], Place(before, "", "", ""))
        assert len(text) <= len(turn)
        before += text
    assert not text and before.count(turn) <= max(typed, ENOUGH_TURNS)


@given(
    st.sampled_from(["<p>", "return read(1)", "if row:", '<div className="a">', "x2 = rows[2]"]),
    st.integers(0, 4),
    st.integers(3, 8),
    st.booleans(),
)
def test_a_line_is_not_said_three_times_deeper_or_with_other_numbers(
    line: str, step: int, count: int, numbered: bool
) -> None:
    turns = [" " * (step * at) + (re.sub(r"\d", str(at), line) if numbered else line) for at in range(count)]
    assert repetition("\n".join(turns), NOWHERE) == turns[0]
    shallower = "\n".join(reversed(turns))
    assert repetition(shallower, NOWHERE) == (shallower if step else turns[-1])
