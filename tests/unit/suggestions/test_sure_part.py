"""What a preset shows while somebody types, and what waits until he stops: of real tokens with given chances."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.place import Place, place_at
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.completion.suggestions.sure import (
    MOST_LISTED,
    PAUSED,
    UNSAID,
    Guess,
    ShownPart,
    paused_part,
    sure_beginning,
    sure_part,
)
from efim_ls.completion.suggestions.sureness import embedded_sureness
from efim_ls.request import Expected, Names, Preset
from model_runtime.engine.output import TextProbability, WordEnd
from tests.unit.likelihoods import suggestion

AT = "‸"
FILE = "width = 1\nprint(width, width)\nwidth += 1\n"
SHIPPED = embedded_sureness()
PRESETS: tuple[Preset, ...] = ("more", "balanced", "sure")
ALNUM = re.compile(r"[^\W_]")


def place(marked: str, others: tuple[str, ...] = ()) -> Place:
    return place_at(marked.replace(AT, ""), marked.index(AT), "python", others)


Ask = Callable[[TextProbability, int, Place], ShownPart | None]


def balanced(likelihood: TextProbability, start: int, at: Place) -> ShownPart:
    return sure_part(likelihood, start, at, "balanced", SHIPPED)


def shown(marked: str, text: str, *chances: float, ask: Ask = balanced, counted: float = 0.0) -> str:
    """Return what is shown at the cursor of a suggestion whose tokens have these chances."""
    at = place(marked)
    part = ask(suggestion(text, *chances, stub=spot_of(at).stub, counted=counted), 0, at)
    return part.shown if part else ""


def test_a_sure_suggestion_is_shown_as_far_as_it_is_sure() -> None:
    assert shown("x = f(‸", "self, width)", 0.95) == "self, width)"
    assert shown("x = f(‸", "self, width)", 0.95, 0.3) == "self"
    assert shown("x = f(‸", "self, width)", 0.3) == ""
    assert shown("def f(self):‸", "\n    return self\n    # No", 0.99) == "\n    return self\n    # No"


def test_the_closer_of_a_bracket_that_is_shown_is_shown_where_it_is_likely_enough() -> None:
    text, spot = "shapes.update_measured(r)", spot_of(place("‸"))
    for chance, wanted in ((0.85, text), (0.75, "shapes.update_measured(")):
        ends = [WordEnd(6, 1.0), WordEnd(23, 1.0), WordEnd(24, chance), WordEnd(25, chance)]
        guess = Guess(text, 0, spot, ends, 6, 0.9, "python")
        assert sure_beginning(guess, LEVELS["balanced"]).shown == wanted


def test_a_word_of_the_file_is_shown_that_is_surer_than_the_models_guess() -> None:
    at = place(f"{FILE}x = wid‸")
    unsure = suggestion("get(shape)", 0.1, stub="wid", instead="th")
    part = sure_part(unsure, 0, at, "balanced", SHIPPED)
    assert (part.shown, part.hidden, part.source) == ("th", "", "a word of this file, 4 times")
    assert part.probability >= LEVELS["balanced"] and part.words == (("th", part.probability),)
    assert not sure_part(unsure, 0, at, "balanced", SHIPPED, divisible=False).shown, (
        "code that follows would not be reached"
    )
    assert not sure_part(unsure, 0, place("x = wid‸"), "balanced", SHIPPED).shown, "it stands nowhere"
    nearly_typed = suggestion("x", 0.1, stub="widt", instead="h")
    assert not sure_part(nearly_typed, 0, place(f"{FILE}x = widt‸"), "more", SHIPPED).shown, "one character is left"
    agreed = sure_part(suggestion("th + 1", 0.9, stub="wid"), 0, at, "balanced", SHIPPED)
    assert (agreed.shown, agreed.source) == ("th + 1", "")


def test_before_code_the_blanks_that_lead_into_it_are_shown() -> None:
    made, at = suggestion("self, ", 0.95), place("x = f(‸width)")
    for preset in PRESETS:
        assert sure_part(made, 0, at, preset, SHIPPED, divisible=False).shown == "self, "
        assert sure_part(made, 0, at, preset, SHIPPED).shown == "self,"
    assert not sure_part(suggestion("self, ", 0.95, 0.3), 0, at, "more", SHIPPED, divisible=False).shown


def test_a_word_that_stands_nowhere_is_hidden_unless_the_workspace_has_it() -> None:
    assert shown(f"{FILE}x = wid‸", "get(shape)", 0.95) == ""
    assert shown(f"{FILE}x = wid‸", "get(shape)", 0.95, counted=0.5) == "get(shape)"
    assert shown("widget = 1\nx = wid‸", "get(shape)", 0.95) == "get(shape)"
    assert shown(f"{FILE}x = 'wid‸", "get'", 0.95) != "", "prose may have any word"
    assert shown(f"{FILE}def wid‸", "get(shape):", 0.95) != "", "what is defined is new"


def test_a_name_that_a_module_lacks_is_hidden_at_rest_as_well() -> None:
    expected = Expected("attribute", "wid", Names({"width": "value", "widest": "value"}, False))
    at = Place("x = made_up.wid", "", "widget = 1\n", "", "python", names_after=lambda _: expected)
    for text, wanted in (("get(shape)", ""), ("est(shape)", "est(shape)")):
        made = suggestion(text, 0.95, stub="wid")
        assert sure_part(made, 0, at, "more", SHIPPED).shown == wanted
        assert ((paused_part(made, 0, at) or ShownPart("", "", 0.0, ())).shown) == wanted


def listing(*names: str, stub: str = "wid", is_open: bool = False) -> Place:
    """A place behind a dot where another server lists these names."""
    expected = Expected("attribute", stub, Names(dict.fromkeys(names, "value"), is_open), lister="gopls")
    return Place(f"x = shape.{stub}", "", "", "", "go", names_after=lambda typed: None if typed else expected)


def test_a_guess_that_another_server_does_not_list_gives_way_to_the_only_name_or_to_nothing() -> None:
    unlisted, listed = suggestion("get(1)", 0.95, stub="wid"), suggestion("th + 1", 0.1, 0.95, stub="wid")
    part = balanced(unlisted, 0, listing("width", "depth"))
    assert (part.shown, part.source, part.hidden) == ("th", "listed by gopls", "")
    hidden = balanced(unlisted, 0, listing("widest", "width"))
    assert (hidden.shown, hidden.reason) == ("", "unknown word"), "which one is not known"
    assert balanced(listed, 0, listing("width", "depth")).shown.startswith("th"), "no other name begins so"
    assert balanced(listed, 0, listing("widest", "width")).shown == ""


@given(st.floats(0.01, 0.97), st.sampled_from(["name", "node", "next", "other", "n"]), st.booleans())
def test_names_that_are_all_listed_share_what_the_model_says_of_them(
    chance: float, third: str, is_open: bool
) -> None:
    least, node = LEVELS["balanced"], (1 - chance) / (1 + UNSAID)
    guess, at = suggestion("ame", chance, stub="n", instead="ode"), listing("name", "node", third, stub="n")
    part = balanced(guess, 0, at)
    if chance / (1 + UNSAID) >= least:
        assert (part.shown, part.source) == ("ame", "")
    elif node > least:
        assert (part.shown, part.source) == ("ode", "listed by gopls")
    assert part.shown in ("", "ame", "ode"), "the model says nothing of any other"
    if is_open:
        usual = replace(at, names_after=lambda _typed: None)
        there = listing("name", "node", third, stub="n", is_open=True)
        assert balanced(guess, 0, there).shown in ("", balanced(guess, 0, usual).shown)


def test_behind_a_dot_names_that_are_all_listed_share_what_the_model_says() -> None:
    at = listing("name", "depth", "height", stub="")
    assert balanced(suggestion("name", 0.5, instead="~"), 0, at).shown == "name", "no other name begins so"
    instead = balanced(suggestion("node(1)", 0.3, instead="name"), 0, at)
    assert (instead.shown, instead.source) == ("name", "listed by gopls")
    assert balanced(suggestion("name", 0.5, instead="depth"), 0, at).shown == ""
    assert balanced(suggestion("node", 0.5, instead="~"), 0, at).shown == "", "the model says none of them"


def test_many_names_that_begin_alike_are_not_compared() -> None:
    many = [f"name_{number}" for number in range(MOST_LISTED)]
    guess = suggestion("ame", 0.5, stub="n", instead="ode")
    assert balanced(guess, 0, listing("name", *many, stub="n")).shown == ""
    assert balanced(guess, 0, listing("name", *many[1:], stub="n")).shown == "ame"


def test_where_there_may_be_more_names_only_two_letters_tell_and_a_guess_may_stand() -> None:
    unlisted, unsure = suggestion("get(1)", 0.95, stub="wid"), suggestion("th + 1", 0.1, 0.95, stub="wid")
    assert balanced(unlisted, 0, listing("width", is_open=True)).shown == "get(1)"
    assert balanced(unsure, 0, listing("width", is_open=True)).shown.startswith("th")
    first = suggestion("eight + 1", 0.1, 0.95, stub="w")
    assert balanced(first, 0, listing("width", stub="w")).shown == "idth"
    assert balanced(first, 0, listing("width", stub="w", is_open=True)).shown == ""


@pytest.mark.parametrize(
    ("known", "source"),
    [
        ({"lister": "pylsp"}, "listed by pylsp"),
        ({"owner": "requests.get", "places": {"requests": ".venv"}}, "from requests.get in .venv"),
        ({"owner": "fetch", "places": {"fetch": "the workspace"}}, "from fetch in the workspace"),
    ],
)
def test_the_only_argument_that_begins_so_is_shown_where_no_guess_is_sure(known: dict[str, Any], source: str) -> None:
    names = Names(dict.fromkeys(("timeout", "retries"), "value"), is_open=True)
    expected = Expected("keyword", "t", names, **known)
    at = Place("fetch(t", "", "", "", "python", names_after=lambda typed: None if typed else expected)
    part = balanced(suggestion("otal)", 0.1, stub="t"), 0, at)
    assert (part.shown, part.source) == ("imeout", source)
    usual = Place("fetch(t", "", "fetch(total)\n" * 5, "", "python", names_after=at.names_after)
    assert balanced(suggestion("otal)", 0.99, stub="t"), 0, usual).shown == "otal)"


def test_a_listed_name_that_is_typed_is_not_made_another_one() -> None:
    names = Names(dict.fromkeys(("title", "title_align"), "value"), is_open=True)
    expected = Expected("keyword", "title", names, lister="pylsp")
    at = Place("Table(title", "", "", "", "python", names_after=lambda typed: None if typed else expected)
    assert balanced(suggestion("s)", 0.1, stub="title"), 0, at).shown == ""
    begun = replace(at, before="Table(tit", names_after=lambda _: expected._replace(stub="tit", names=longer))
    longer = Names({"title_align": "value"}, is_open=True)
    assert balanced(suggestion("s)", 0.1, stub="tit"), 0, begun).shown == "le_align"
    assert balanced(suggestion("s)", 0.1, stub="tit"), 0, replace(begun, above="tit = 1\n")).shown == ""


def test_the_only_argument_gives_way_to_a_guess_that_is_a_word_of_the_file() -> None:
    expected = Expected("keyword", "to", Names({"tolerance": "value"}, is_open=True), lister="pylsp")
    at = Place("fetch(to", "", "total = 1\n", "", "python", names_after=lambda typed: None if typed else expected)
    assert balanced(suggestion("tal)", 0.2, stub="to"), 0, at).shown == ""
    assert balanced(suggestion("ast)", 0.2, stub="to"), 0, at).shown == "lerance"


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ("‸", "return"), ("def f():\n    ‸", "pass"), ("x = 1‸", "2 + width"), ("x = [1‸", "]"),
        ("x = f(width‸", ")"),
        ("x = f(width‸", "):\n"), ("x = ‸", "y"), ("x = 1.‸", "5"), ("f(a)‸", " "), ("x = f({width‸", "})]"),
    ],
)  # fmt: skip
def test_what_is_no_help_is_never_shown(marked: str, text: str) -> None:
    assert shown(marked, text, 0.99) == "" == shown(marked, text, 0.99, ask=paused_part)


@pytest.mark.parametrize(
    ("marked", "text", "chances", "divisible", "reason"),
    [
        ("x‸", " = (-", (0.99,), True, "too little"),
        ("x = 1‸", "2 + width", (0.99,), True, "too little"),
        ("def f():\n    ‸", "pass", (0.99,), True, "too little"),
        (f"{FILE}x = wid‸", "get(shape)", (0.95,), True, "unknown word"),
        ("x = f(‸", "self, width)", (0.3,), True, "low confidence"),
        ("x = f(‸", "self, ", (0.95, 0.3), False, "low confidence"),
        ("x = f(‸", "self, width)", (0.95,), True, None),
    ],
)  # fmt: skip
def test_the_rule_that_hides_it_is_named(
    marked: str, text: str, chances: tuple[float, ...], divisible: bool, reason: str | None
) -> None:
    at = place(marked)
    part = sure_part(suggestion(text, *chances, stub=spot_of(at).stub), 0, at, "balanced", SHIPPED, divisible)
    assert part.reason == reason and bool(part.shown) == (reason is None)
    assert reason != "low confidence" or part.probability < part.least


def test_signs_alone_are_shown_only_at_rest() -> None:
    assert shown("x‸", " = (-", 0.99) == ""
    assert shown("x‸", " = (-", 0.99, ask=paused_part) == " = (-"


def test_what_is_less_sure_is_shown_at_rest() -> None:
    assert shown("x = f(‸", "self, width)", 0.5, 0.95) == ""
    assert shown("x = f(‸", "self, width)", 0.5, 0.95, ask=paused_part) == "self, width)"
    assert shown("x = f(‸", "self, width)", PAUSED - 0.05, ask=paused_part) == ""
    assert paused_part(suggestion("", 1.0), 0, place("x‸")) is None


class Drawn(NamedTuple):
    """A place, and a suggestion there of which the first `start` characters are typed."""

    likelihood: TextProbability
    start: int
    place: Place

    @property
    def left(self) -> str:
        return self.likelihood.text[self.start :]


pieces = st.sampled_from(
    [
        "width",
        "wid",
        "self",
        "a",
        "return",
        "import",
        "12",
        ".",
        ", ",
        "(",
        ")",
        " = ",
        ": ",
        "'",
        "[",
        "])",
        "\n",
        "\n    ",
    ]
)
codes = st.lists(pieces, max_size=8).map("".join)
chances = st.lists(st.floats(0.02, 0.999), min_size=1, max_size=6)


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    above = draw(st.sampled_from(["", FILE, "wide = 1\nwide_of(wide)\nself.widest = wide\n"]))
    line = draw(st.sampled_from(["", "    ", "x = ", "f(", "self.", "x = 1", "# ", "'", "def ", "import "]))
    stub, text = draw(st.sampled_from(["", "w", "wi", "wid", "se"])), draw(codes)
    likelihood = suggestion(text, *draw(chances), stub=stub, instead=draw(st.sampled_from(["dth", "est", "~", "lf"])))
    start = draw(st.integers(0, len(likelihood.text)))
    before = above + line + stub + likelihood.text[:start]
    others = draw(st.sampled_from([(), ("widget = 1\n",)]))
    return Drawn(likelihood, start, place_at(f"{before}\n{draw(codes)}", len(before), "python", others))


def parts(made: Drawn, divisible: bool = True) -> list[ShownPart]:
    """Return what each preset shows, and what is shown at rest."""
    found = [sure_part(*made, preset, SHIPPED, divisible) for preset in PRESETS]
    at_rest = paused_part(*made, divisible)
    return [*found, at_rest] if at_rest else found


@given(drawn(), st.booleans())
def test_what_is_shown_is_a_beginning_of_the_suggestion_or_a_word_of_the_file(made: Drawn, divisible: bool) -> None:
    stub = spot_of(made.place).stub
    for part in parts(made, divisible):
        if part.source:
            assert stub + part.shown in re.findall(r"\w+", made.place.above + made.place.below)
            assert (part.hidden, divisible) == ("", True)
        else:
            assert part.shown + part.hidden == made.left
            assert (
                "".join(text for text, _ in part.words) == made.left[: len("".join(text for text, _ in part.words))]
            )
        assert not divisible or not part.shown[-1:].isspace()


@given(drawn(), st.booleans())
def test_nothing_is_shown_that_is_no_help(made: Drawn, divisible: bool) -> None:
    spot = spot_of(made.place)
    *presets, at_rest = [*parts(made, divisible), None][: len(PRESETS) + 1]
    for part in filter(None, (*presets, at_rest)):
        assert len(part.shown) != 1
        assert not part.shown or spot.kind != "number"
        assert not part.shown or not re.fullmatch(r"[\s)\]},;:]+", part.shown)
    for part in presets:
        assert not part.shown or ALNUM.search(part.shown) or part.source
        assert not part.shown or part.probability >= part.least
    assert not at_rest or at_rest.probability >= PAUSED


@given(drawn(), st.booleans())
def test_a_more_permissive_preset_shows_wherever_a_stricter_one_does(made: Drawn, divisible: bool) -> None:
    permissive, *stricter = (bool(sure_part(*made, preset, SHIPPED, divisible).shown) for preset in PRESETS)
    assert [permissive, *stricter] == sorted([permissive, *stricter], reverse=True)


@given(drawn())
def test_before_code_all_is_shown_or_nothing(made: Drawn) -> None:
    for part in parts(made, divisible=False):
        assert part.shown in ("", made.left)
