"""Typing through a suggestion, accepting it, and coming back to it: what is left of it, and what that costs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.request import Answer, Request
from model_runtime.cancel import NEVER, Cancel
from tests.engine.completion.test_complete import FITTING, SETTINGS, Make, ask, maker
from tests.engine.doubles import Log, Watched
from tests.models import CODE

URI = "file:///a.py"
PARTS = {"all": r"(?s).*", "word": r"\s*\w*|.", "line": r"[^\n]*\n?"}


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder, arenas=8, settings=replace(SETTINGS, max_new_tokens=24))


class Place:
    """A place where something was suggested, to go on typing there."""

    def __init__(self, made: Make, text: str, cursor: int, *, explicit: bool = False) -> None:
        self.completer, self.engine = made()
        self.before, self.after = text[:cursor], text[cursor:]
        self.first = ask(self.completer, text, cursor, URI, explicit=explicit)
        self.suggested = self.first.text
        self.canonical = is_canonical(self.engine, self.suggested)

    def behind(self, typed: str, *, explicit: bool = False) -> Answer:
        """Complete behind what was typed since the suggestion was made."""
        text = self.before + typed
        return ask(self.completer, text + self.after, len(text), URI, explicit=explicit)

    def afresh(self, made: Make, typed: str, *, explicit: bool = False) -> str:
        """What is suggested there by one that knows of no suggestion and holds nothing."""
        completer, _ = made()
        completer._model_of[URI] = completer.models.first
        completer._documents[URI] = DocumentState(self.completer._documents[URI].planner.copy)
        text = self.before + typed
        return ask(completer, text + self.after, len(text), URI, explicit=explicit).text


def is_canonical(engine: Watched, suggested: str) -> bool:
    """Whether the model said the suggestion in the tokens that the text has when it is typed."""
    assert engine.log.prompt is not None
    ids = engine.tokenizer.encode(engine.log.prompt.stub.decode() + suggested).tolist()
    return bool(suggested) and engine.log.tokens[: len(ids)] == ids


def without_rest(cursor: int) -> str:
    """The text, its line cut off at the cursor."""
    return CODE[:cursor] + CODE[CODE.index("\n", cursor) :]


# (cursor, asked by a key) of suggestions of several lines, by a key and by themselves, and of a line or less
SEVERAL = [(487, True), (583, True), (277, True), (788, False)]
CANONICAL = [*SEVERAL, (702, False), (991, False), (922, False)]
cursors = pytest.mark.parametrize(("cursor", "explicit"), CANONICAL)


def test_the_places_of_these_tests_have_suggestions_of_all_kinds(made: Make) -> None:
    places = [Place(made, without_rest(cursor), cursor, explicit=explicit) for cursor, explicit in CANONICAL]
    assert all(place.canonical for place in places)
    assert all("\n" in place.suggested for place in places[: len(SEVERAL)])


@cursors
def test_typing_through_a_suggestion_gives_what_is_left_of_it_without_the_model(
    made: Make, cursor: int, explicit: bool
) -> None:
    place = Place(made, without_rest(cursor), cursor, explicit=explicit)
    place.engine.log = Log()
    for size in range(1, len(place.suggested)):
        answer = place.behind(place.suggested[:size])
        assert (answer.text, answer.reason) == (place.suggested[size:], None)
        assert (answer.costs.recomputed, answer.costs.passes, place.engine.log.prompt) == (0, 0, None)
        assert answer.costs.known == answer.costs.new_tokens > 0


@pytest.mark.parametrize(("cursor", "explicit"), SEVERAL)
def test_several_lines_stay_several_when_the_first_of_them_is_begun(made: Make, cursor: int, explicit: bool) -> None:
    place = Place(made, without_rest(cursor), cursor, explicit=explicit)
    begun = place.suggested[:1].strip() or place.suggested[: place.suggested.index("\n", 1)]
    assert place.afresh(made, begun) != place.suggested[len(begun) :]
    assert place.behind(begun).text == place.suggested[len(begun) :]


@pytest.mark.parametrize("cursor", range(5, len(CODE), 61))
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_typing_through_any_suggestion_gives_what_is_left_of_it(made: Make, cursor: int, line_end: str) -> None:
    for explicit in (False, True):
        before, after = (part.replace("\n", line_end) for part in (CODE[:cursor], without_rest(cursor)[cursor:]))
        place = Place(made, before + after, len(before), explicit=explicit)
        for size in range(1, len(place.suggested)):
            typed = place.suggested[:size].replace("\n", line_end)
            assert place.behind(typed).text == place.suggested[size:]


def test_where_code_stands_after_it_a_suggestion_that_is_typed_through_is_left_as_well(made: Make) -> None:
    place = Place(made, CODE, CODE.index(' encoding="utf-8") as file:'))
    assert len(place.suggested) > 4
    for size in range(1, len(place.suggested)):
        answer = place.behind(place.suggested[:size])
        assert answer.text == place.suggested[size:]
        assert (answer.costs.recomputed, answer.costs.passes) == (0, 0)


@cursors
@pytest.mark.parametrize("part", PARTS)
def test_accepting_a_suggestion_recomputes_no_prompt(made: Make, cursor: int, explicit: bool, part: str) -> None:
    place = Place(made, without_rest(cursor), cursor, explicit=explicit)
    accepted = re.match(PARTS[part], place.suggested)[0]  # pyright: ignore[reportOptionalSubscript]
    answer = place.behind(accepted)
    assert answer.costs.frame == "kept"
    assert answer.costs.recomputed <= (part == "all")  # the last token was said, but nothing came after it
    assert answer.reason in FITTING
    if len(accepted) < len(place.suggested):
        assert answer.text == place.suggested[len(accepted) :]


@cursors
def test_backspace_into_a_suggestion_brings_it_back(made: Make, cursor: int, explicit: bool) -> None:
    place = Place(made, without_rest(cursor), cursor, explicit=explicit)
    sizes = range(len(place.suggested))
    for size in sizes:
        place.behind(place.suggested[:size])
    for size in reversed(sizes):
        assert place.behind(place.suggested[:size]).text == place.suggested[size:]


@cursors
@pytest.mark.parametrize("other", ["§", " ", "\n", "x.y"])
def test_a_diverging_key_that_is_taken_back_brings_the_suggestion_back(
    made: Make, cursor: int, explicit: bool, other: str
) -> None:
    place = Place(made, without_rest(cursor), cursor, explicit=explicit)
    for size in range(0, len(place.suggested), 3):
        typed = place.suggested[:size]
        place.behind(typed)
        place.behind(typed + other)
        answer = place.behind(typed)
        assert answer.text == place.suggested[size:]
        assert answer.costs.recomputed <= 1


def test_asking_by_a_key_asks_afresh(made: Make) -> None:
    cursor = 498
    place = Place(made, without_rest(cursor), cursor)
    assert "\n" not in place.suggested
    several = place.behind("", explicit=True)
    assert several.text == place.afresh(made, "", explicit=True)
    assert several.text.startswith(place.suggested + "\n")
    assert place.behind("").text == several.text
    for size in (1, 3):
        fresh = place.afresh(made, several.text[:size], explicit=True)
        assert place.behind(several.text[:size], explicit=True).text == fresh


def test_what_was_suggested_in_another_text_is_not_suggested_again(made: Make) -> None:
    place = Place(made, without_rest(549), 549, explicit=True)
    assert "\n" in place.suggested
    place.after += "changed = True\n"
    assert place.behind("").text == place.afresh(made, "") != place.suggested


def test_what_was_suggested_in_one_document_is_not_suggested_in_another(made: Make) -> None:
    place = Place(made, without_rest(549), 549, explicit=True)
    assert "\n" in place.suggested
    assert "\n" not in ask(place.completer, place.before + place.after, 549, "file:///b.py").text


def test_a_forgotten_documents_suggestions_are_forgotten(made: Make) -> None:
    place = Place(made, without_rest(549), 549, explicit=True)
    assert place.behind("").text == place.suggested
    place.completer.close_document(URI, save=True)
    assert "\n" not in place.behind("").text


def test_a_request_that_is_stopped_suggests_nothing_to_go_on_with(made: Make) -> None:
    completer, _ = made()
    request = Request(URI, without_rest(549), 549, explicit=True)
    assert completer.complete(request, Cancel(lambda: True)).reason == "superseded"
    assert "\n" not in completer.complete(replace(request, explicit=False), NEVER).text
