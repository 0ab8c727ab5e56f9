"""Undo, jumps and switches between places and files: each costs what changed since the place was left."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.request import Costs
from tests.engine.completion.test_complete import Make, ask, maker
from tests.models import CODE

A, B = "file:///a.py", "file:///b.py"
LONG = "".join(CODE.replace("value", f"value_{i}").replace("record", f"record_{i}") for i in range(4))
PLACES = [LONG.index(f"name, value_{i} = line") for i in range(4)]
TYPED = "if name:"
WORD = 3  # tokens of a word, which are computed when the next one is begun


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder, arenas=8)


def typed_at(cursor: int, typed: str, text: str = LONG) -> tuple[str, int]:
    """The text and the cursor after typing something at a place."""
    return text[:cursor] + typed + text[cursor:], cursor + len(typed)


def test_places_far_apart_make_frames_that_have_little_in_common(made: Make) -> None:
    completer, _ = made()
    costs = [ask(completer, LONG, place, A).costs for place in PLACES]
    assert [each.frame for each in costs] == ["new"] * len(PLACES)
    assert min(each.recomputed for each in costs) > 100


def test_undo_key_by_key_costs_a_word_at_most(made: Make) -> None:
    completer, _ = made()
    for size in range(len(TYPED) + 1):
        ask(completer, *typed_at(PLACES[0], TYPED[:size]), A)
    for size in reversed(range(len(TYPED))):
        costs = ask(completer, *typed_at(PLACES[0], TYPED[:size]), A).costs
        assert (costs.frame, costs.recomputed <= WORD) == ("kept", True)


@pytest.mark.parametrize("away", [PLACES[0] + 60, PLACES[2]], ids=["close by", "far away"])
def test_undo_after_a_jump_costs_what_is_undone(made: Make, away: int) -> None:
    completer, _ = made()
    ask(completer, LONG, PLACES[0], A)
    changed, _ = typed_at(PLACES[0], TYPED)
    ask(completer, *typed_at(PLACES[0], TYPED), A)
    ask(completer, changed, away + len(TYPED), A)
    costs = ask(completer, LONG, PLACES[0], A).costs
    assert (costs.frame, costs.recomputed <= WORD) == ("restored", True)


def test_jumping_back_costs_nothing(made: Make) -> None:
    completer, _ = made()
    for place in PLACES:
        ask(completer, LONG, place, A)
    for place in PLACES:
        costs = ask(completer, LONG, place, A).costs
        assert (costs.frame, costs.recomputed) == ("restored", 0)


def test_two_places_edited_in_turn_cost_what_is_typed_there(made: Make) -> None:
    completer, _ = made()
    text, places = LONG, [PLACES[0], PLACES[3]]
    for place in places:
        ask(completer, text, place, A)
    for key in TYPED:
        for i in (0, 1):
            text, places[i] = typed_at(places[i], key, text)
            places[1] += 1 - i
            costs = ask(completer, text, places[i], A).costs
            assert (costs.frame, costs.recomputed <= WORD) == ("restored", True)


def test_switching_between_files_costs_what_is_typed(made: Make) -> None:
    completer, _ = made()
    texts = {A: LONG, B: LONG.replace("store", "shelf").replace("Record", "Folder")}
    assert texts[A][: PLACES[0]] != texts[B][: PLACES[0]]
    costs: list[Costs] = []
    for size in range(len(TYPED) + 1):
        costs += [ask(completer, *typed_at(PLACES[0], TYPED[:size], text), uri).costs for uri, text in texts.items()]
    assert [each.frame for each in costs] == ["new"] * 2 + ["kept"] * (len(costs) - 2)
    assert max(each.recomputed for each in costs[2:]) <= WORD


def test_the_same_text_under_another_name_is_not_computed_again(made: Make) -> None:
    completer, _ = made()
    ask(completer, LONG, PLACES[1], A)
    costs = ask(completer, LONG, PLACES[1], B).costs
    assert (costs.frame, costs.recomputed) == ("new", 1)


def test_with_fewer_arenas_than_frames_the_answers_are_the_same(folder: Path, made: Make) -> None:
    (few, _), (many, _) = maker(folder, arenas=2)(), made()
    for place in [*PLACES, *PLACES, PLACES[0]]:
        assert ask(few, LONG, place, A).text == ask(many, LONG, place, A).text


def test_of_many_unsaved_documents_the_one_that_is_asked_about_is_not_dropped(
    made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efim_ls.completion.completer.MOST_DOCUMENTS", 2)
    completer, _ = made()
    uris = [f"file:///unsaved{n}.py" for n in range(4)]
    for uri in uris:
        ask(completer, LONG, PLACES[0], uri)
        assert completer.made_from(uri) is not None, "it is known what was made, so an explanation can tell"
        assert ask(completer, LONG, PLACES[0], uri).costs.frame == "kept"
    assert all(ask(completer, LONG, PLACES[0], uri).costs.frame == "kept" for uri in uris), "nor one that is unsaved"
