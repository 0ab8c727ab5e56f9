"""The words that begin as the user has begun, and whether a word stands anywhere, beside a slow way to tell."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from efim_ls.completion.filters.place import Place, place_at
from efim_ls.completion.suggestions.place_kind import KINDS, PROSE, PlaceKind, Spot, spot_of
from efim_ls.completion.suggestions.words import (
    Word,
    Words,
    is_usual,
    stands_in_file,
    stands_nowhere,
    words_at,
)
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Expected, NameKind, Names

AT = "‸"
texts = st.lists(st.text("aé_", max_size=4) | st.sampled_from(" .(\n1"), max_size=12).map("".join)
stubs = st.text("aé_1", max_size=2)
names = st.dictionaries(st.text("aé_", min_size=1, max_size=4), st.just("value"), max_size=4)
expectations = st.none() | st.builds(
    lambda kind, kinds, is_open: Expected(kind, "", Names(kinds, is_open)),
    st.sampled_from(["module", "name", "attribute", "keyword"]),
    names,
    st.booleans(),
)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def slow_words(stub: str, place: Place, expected: Expected | None) -> Words:
    """Look at each word of the file, and at each name that is expected."""
    above, file = words_of(place.above), Counter(words_of(place.above) + words_of(place.below))
    known = set(expected.names.kinds) if expected else set[str]()
    only = expected and expected.kind in ("module", "name", "attribute") and not expected.names.is_open
    longer = {word for word in {*known, *file} if re.match(re.escape(stub) + r"\w", word)}
    longer_above = [word for word in above if re.match(re.escape(stub) + r"\w", word)]
    found = [
        Word(word, file[word], bool(longer_above) and word == longer_above[-1], word in known)
        for word in longer
        if word in known or not only
    ]
    found.sort(key=lambda word: word.text)
    found.sort(key=lambda word: (word.expected, word.times, word.nearest), reverse=True)
    return Words(tuple(found), stub in file, expected)


@given(stub=stubs, above=texts, below=texts, expected=expectations)
def test_words_are_those_that_a_slow_look_finds(stub: str, above: str, below: str, expected: Expected | None) -> None:
    place = Place(f"x = {stub}", "", f"{above}\n", f"\n{below}", "python", names_after=lambda _: expected)
    found = words_at(Spot("value", stub), place)
    if len(stub) < (1 if expected else 2) or stub[0].isdigit():
        assert found == Words(expected=expected)
        assert not found.longer, "too many words begin with so little, and numbers go on as they like"
    else:
        assert found == slow_words(stub, place, expected)
    assert found.times == sum(max(1, each.times) for each in found.longer)


@pytest.mark.parametrize(
    ("marked", "longer"),
    [
        ("width = widest = width\nwi‸", ["width", "widest"]),
        ("widest = 1\nwidth = 1\nwi‸", ["width", "widest"]),
        ("wi‸\nwidest = width = width", ["width", "widest"]),
        ("rewind = wi\nwi‸", []),
        ("width = 1\nx = width_of(wi‸", ["width"]),
        ("# Its width.\nx = 'wi‸", ["width"]),
        ("wit, wits = 1, 2\nwit‸", ["wits"]),
        ("x = 1.width + 12th\nx = 1‸", []),
        ("x.real = 1\ny = 1.re‸", []),
    ],
)
def test_the_most_frequent_come_first_then_the_nearest(marked: str, longer: list[str]) -> None:
    place = place_at(marked.replace(AT, ""), marked.index(AT), "python")
    assert [each.text for each in words_at(spot_of(place), place).longer] == longer


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("width", "a word of this file, once"), ("widths", "a word of this file, 2 times"),
        ("wider", "from shapes in the workspace"), ("widget", "from shapes in the workspace, once in this file"),
    ],
)  # fmt: skip
def test_a_word_has_a_source(text: str, source: str) -> None:
    kinds: dict[str, NameKind] = {"wider": "class", "widget": "class"}
    expected = Expected("attribute", "wi", Names(kinds, True), "shapes", {"shapes": "the workspace"})
    place = Place("x = shapes.wi", "", "widget, width, widths = 1, 2, 3\n", "widths += 1\n", "python")
    place = replace(place, names_after=lambda _: expected)
    assert words_at(spot_of(place), place).source(text) == source


def test_nothing_is_expected_in_prose() -> None:
    expected = Expected("attribute", "", Names({"width": "value"}, False))
    for marked, wanted in (("x = a.wi‸", expected), ("x = 'a.wi‸", None), ("# a.wi‸", None), ('"""a.wi‸', None)):
        place = place_at(marked[:-1], len(marked) - 1, "python")
        place = Place(place.before, "", "", "", "python", names_after=lambda _: expected)
        assert words_at(spot_of(place), place).expected == wanted


def is_nowhere(
    marked: str, made: str, rest: str = "", others: tuple[str, ...] = (), language: str = "python"
) -> bool:
    """Return whether the word that `made` makes at the cursor stands nowhere; `rest` follows it."""
    place = place_at(marked.replace(AT, ""), marked.index(AT), language, others)
    spot = spot_of(place)
    return stands_nowhere(spot.stub + made, rest, spot, words_at(spot, place), place)


@pytest.mark.parametrize(
    ("marked", "others", "expected"),
    [
        ("x = wid‸", (), True), ("width = 1\nx = wid‸", (), False), ("x = wid‸\nwidth = 1", (), False),
        ("x = f(width, wid‸", (), False), ("widths = 1\nx = wid‸", (), True),
        ("x = wid‸", ("", "y = width\n"), False),
        ("x = wid‸", ("widths = my_width",), True), ("# width\nx = wid‸", (), False), ("x = 'wid‸", (), False),
        ("# wid‸", (), False), ('"""\nwid‸', (), False), ("x = y.wid‸", (), True), ("f(wid‸", (), True),
    ],
)  # fmt: skip
def test_a_word_stands_in_the_file_or_in_open_neighbours(
    marked: str, others: tuple[str, ...], expected: bool
) -> None:
    assert is_nowhere(marked, "th", others=others) is expected


@pytest.mark.parametrize(
    ("marked", "rest", "expected"),
    [
        ("def wid‸", "(shape):", False), ("class wid‸", ":", False), ("x = lambda wid‸", ": 1", False),
        ("def area(wid‸", ", height):", False), ("for wid‸", " in shapes:", False), ("with f() as wid‸", ":", False),
        ("from a import b as wid‸", "", False), ("global wid‸", "", False), ("    nonlocal wid‸", "", False),
        ("wid‸", " = 1", False), ("    wid‸", ": int = 1", False), ("wid‸", ", height = 1, 2", False),
        ("wid‸", " == 1", True), ("wid‸", ".area()", True), ("wid‸", "(1)", True), ("area(wid‸", "=1)", False),
        ("area(wid‸", ")", True), ("area(wid‸", "==1)", True), ("x = wid‸", " = 1", True),
        ("def area(x): return wid‸", "", True), ("for x in y: wid‸", "()", True),
    ],
)  # fmt: skip
def test_what_a_definition_makes_is_new(marked: str, rest: str, expected: bool) -> None:
    assert is_nowhere(marked, "th", rest) is expected


@pytest.mark.parametrize("word", ["print", "ValueError", "self", "match", "return", "append", "__init__"])
def test_python_has_words_of_its_own(word: str) -> None:
    assert not is_nowhere(f"x = {word[:2]}‸", word[2:])


@pytest.mark.parametrize(
    ("language", "marked", "made", "rest", "expected"),
    [
        ("typescript", "const x = wid‸", "th", ";", True), ("typescript", "const x = int‸", "erface", "", False),
        ("typescript", "const wid‸", "th", " = 1;", False), ("typescript", "x = shape.wid‸", "th", "", False),
        ("typescript", "function area(wid‸", "th", ": number) {", False),
        ("typescript", "  wid‸", "th", "(): number {", False), ("typescript", "  wid‸", "th", "();", True),
        ("typescript", "  wid‸", "th", ": number;", False), ("typescript", "import { wid‸", "th", " }", False),
        ("typescriptreact", "shapes.map((wid‸", "th", ") => (", False), ("javascript", "x = Pro‸", "mise", "", False),
        ("javascript", "x = wid‸", "th", "", True), ("javascript", "x = __n‸", "ame__", "", True),
        ("go", "\tx := wid‸", "th", "", True), ("go", "\twid‸", "th", " := 1", False),
        ("go", "func area(wid‸", "th", " int) int {", False), ("go", "\tfmt.Pri‸", "ntln", "(x)", False),
        ("go", "\tx = str‸", "uct", "", False), ("go", "\tx = wid‸", "th()", "", True),
        ("go", "type Wid‸", "th", " int", False), ("rust", "let x = wid‸", "th", ";", False),
    ],
)  # fmt: skip
def test_other_languages_have_their_words_and_definitions(
    language: str, marked: str, made: str, rest: str, expected: bool
) -> None:
    assert is_nowhere(marked, made, rest, language=language) is expected


@given(
    word=st.text("aé_", min_size=1, max_size=3),
    kind=st.sampled_from(KINDS),
    parts=st.tuples(texts, texts, texts, texts),
    expected=expectations,
    is_in_modules=st.booleans(),
)
def test_a_word_stands_nowhere_if_a_slow_look_does_not_find_it(
    word: str, kind: PlaceKind, parts: tuple[str, str, str, str], expected: Expected | None, is_in_modules: bool
) -> None:
    above, before, below, other = parts
    assume(word not in LANGUAGES["python"].words.known)
    place = Place(
        before, "", above, below, "python", (other,), in_modules=lambda each: each == word and is_in_modules
    )
    found = stands_nowhere(word, " + 1", Spot(kind, word[:1]), Words(expected=expected), place)
    if kind in PROSE or kind in ("new name", "number"):
        assert not found
    elif expected and expected.kind != "keyword":
        known = expected.names
        assert found == (word not in known.kinds and not known.is_open and not word.startswith("_"))
    else:
        assert found == (not is_in_modules and all(word not in words_of(part) for part in parts))


@given(word=st.text("aé_1", min_size=1, max_size=3), above=texts, below=texts)
def test_a_word_stands_in_the_file_if_a_slow_look_finds_it(word: str, above: str, below: str) -> None:
    place = Place("", "", f"{above}\n", f"\n{below}")
    assert stands_in_file(word, place) == (word in words_of(f"{above}\n{below}"))


@pytest.mark.parametrize(
    ("above", "marked", "guess", "usual"),
    [
        ("self.name = name\nprint(self.name)\n", "return self.‸", "name", True),
        ("self.name = name\nprint(self.name)\n", "return self.na‸", "me", True),
        ("self.name = name\nprint(self.size)\n", "return self.‸", "name", False),
        ("self.name = name\nprint(self.size)\n", "return self.n‸", "ame", True),
        ("other.name = name\n", "return self.‸", "name", False),
        ("", "return self.‸", "name", False),
        ("for key in keys:\n", "for key ‸", "in", True),
        ("x = 1\n", "‸", "x", False),
    ],
)
def test_a_guess_is_usual_if_nothing_else_follows_what_stands_before_it(
    above: str, marked: str, guess: str, usual: bool
) -> None:
    cursor = marked.index(AT)
    place = place_at(above + marked.replace(AT, ""), len(above) + cursor, "python")
    assert is_usual(guess, spot_of(place), place) == usual
