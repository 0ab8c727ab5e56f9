"""What a completion would do, told without doing it; and documents that are forgotten."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from efim_ls.completion.suggestions.explanation import prompt_parts
from efim_ls.request import Answer, Costs, Request, Upcoming
from model_runtime.cancel import NEVER
from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, CountsView
from model_runtime.prompt.prompt import LaidOut, Prompt, PromptPart, order_parts
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import Mask
from tests.engine.completion.test_complete import PLACE, Make, ask, explained, maker
from tests.engine.doubles import CACHE
from tests.models import CODE

SOURCES = ("reused", "fetched", "ahead", "recomputed")  # of a prompt's keys and values


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder)


def counts(costs: dict[str, Any], but_computed: bool = False) -> dict[str, object]:
    """What a prompt is made of and, unless left out, what of it is computed."""
    made_of = ("frame", "head", "tail", "typed")
    return {name: costs[name] for name in (made_of if but_computed else (*made_of, *SOURCES))}


# Explaining

moves = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from([0, 1, 2]),
        st.floats(0, 1),
        st.sampled_from(["complete", "complete", "foresee", "open", "only explain"]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(moves=moves)
@example(
    moves=[
        ("a", 2, 0.166015625, "complete"),
        ("a", 2, 0.16796875, "complete"),
        ("a", 2, 0.166015625, "complete"),
    ]
)
# A frame whose arena served another one meanwhile.
@example(
    moves=[
        ("a", 2, 1.0, "complete"),
        ("a", 0, 0.0, "complete"),
        ("a", 0, 1.0, "foresee"),
        ("a", 0, 0.0, "complete"),
        ("a", 2, 1.0, "complete"),
    ]
)
def test_an_explanation_is_what_the_next_completion_does_and_changes_nothing(
    made: Make, tokenizer: Tokenizer, moves: list[tuple[str, int, float, str]]
) -> None:
    (explaining, engine), (other, _) = made(), made()
    for uri, size, place, action in moves:
        text = CODE[: 600 * (size + 1)]
        cursor = int(place * len(text))
        told = explained(explaining, text, cursor, uri)
        assert told == explained(explaining, text, cursor, uri)
        if action == "complete":
            # By a key: what is left of an earlier suggestion would be answered without the model.
            answer, same = (ask(each, text, cursor, uri, explicit=True) for each in (explaining, other))
            assert answer.reason == told["reason"] or answer.reason in ("empty", "duplicate", "no fit")
            # Tokens that an earlier answer chose need no pass, whatever the arenas hold; that is not foretold.
            known = answer.costs.known > 0 and answer.costs.recomputed < told["costs"]["recomputed"]
            assert counts(told["costs"], but_computed=known) == counts(asdict(answer.costs), but_computed=known)
            assert engine.log.prompt is not None
            assert told["prompt"] == tokenizer.decode(engine.log.prompt.ids)
            parts = told["parts"]
            assert "".join(part["text"] for part in parts) == told["prompt"]
            assert sum(part["tokens"] for part in parts) == len(engine.log.prompt.ids)
            assert (same.text, counts(asdict(same.costs))) == (answer.text, counts(asdict(answer.costs)))
        elif action != "only explain":
            request = Request(uri, text, cursor)
            for each in (explaining, other):
                prepare = (
                    partial(each.prepare, Upcoming(request))
                    if action == "foresee"
                    else partial(each.prepare, Upcoming(Request(uri, text, 0), "opened"))
                )
                assert prepare(NEVER)
        assert explaining.ahead == other.ahead


def test_an_explanation_shows_the_window(made: Make) -> None:
    told = explained(made()[0], "w = 1\nx = 1\ny = 1\na = 1\nb = \nc = 3\n", 28)
    typed = "x = 1\ny = 1\na = 1\nb = "
    assert (told["head"], told["typed"], told["rest"], told["tail"]) == ("w = 1\n", typed, "", "c = 3\n")
    assert told["prompt"] == f"<|fim_prefix|>w = 1\n<|fim_suffix|>c = 3\n<|fim_middle|>{typed.rstrip()}"


def test_parts_are_split_where_their_cost_changes(made: Make) -> None:
    completer, _ = made()
    told = explained(completer, CODE, PLACE)
    assert {part["cost"] for part in told["parts"]} == {"recomputed"}
    assert [part["part"] for part in told["parts"]] == ["marker", "head", "marker", "tail", "marker", "typed"]
    answer = ask(completer, CODE, PLACE, explicit=True)
    assert {part["cost"] for part in explained(completer, CODE, PLACE)["parts"]} == {"kept"}
    spent = completer.explain(Request("file:///a.py", CODE, PLACE), answer)
    assert spent["parts"] == told["parts"] and spent["spent"] == asdict(answer.costs)
    longer = CODE[:PLACE] + "name = 1\n    " + CODE[PLACE:]
    more = explained(completer, longer, PLACE + len("name = 1\n    "))["parts"]
    assert [part["cost"] for part in more if part["part"] == "typed"] == ["kept", "recomputed"]
    ask(completer, CODE, CODE.index("\n"), explicit=True)  # another answer's costs are not those of this prompt
    other = completer.explain(Request("file:///a.py", CODE, CODE.index("\n")), answer)
    assert other["spent"] is None


def test_costs_follow_each_other_in_a_prompt(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("abcdefgh" * 9)[:10]
    prompt = Prompt((PromptPart("typed", ids),), b"", ids)
    parts = prompt_parts(tokenizer, prompt, Costs(reused=7, fetched=2, ahead=4, recomputed=3))
    assert [(part.cost, part.tokens) for part in parts] == [("kept", 1), ("ahead", 4), ("disk", 2), ("recomputed", 3)]


@pytest.mark.parametrize("mask", ["typed", "head"])
def test_isolated_excerpts_are_listed_one_by_one_where_they_are_seen_from(tokenizer: Tokenizer, mask: Mask) -> None:
    texts = {"head": "h = 1\n", "tail": "t = 1\n", "typed": "y = 1\n"}
    excerpts = tuple(PromptPart("similar", tokenizer.encode(text), False, "file:///b.py") for text in ("a\n", "b\n"))
    laid = LaidOut(apart=excerpts, mask=mask)
    head, tail, typed = map(tokenizer.encode, texts.values())
    prompt = Prompt(order_parts(Template((), (), ()), head, tail, typed, context=laid), b"", typed)
    listed = prompt_parts(tokenizer, prompt, Costs(recomputed=prompt.tokens))
    shown, window = [("similar", "a\n"), ("similar", "b\n")], list(texts.items())
    before = 2 if mask == "typed" else 0
    assert [(part.part, part.text) for part in listed] == [*window[:before], *shown, *window[before:]]


def test_what_was_computed_ahead_is_told_until_it_is_needed(made: Make) -> None:
    completer, _ = made()
    assert completer.prepare(Upcoming(Request("file:///a.py", CODE, PLACE)), NEVER)
    assert {part["cost"] for part in explained(completer, CODE, PLACE)["parts"]} == {"ahead"}
    answer = ask(completer, CODE, PLACE, explicit=True)
    assert answer.costs.ahead == answer.costs.reused > 0
    assert {part["cost"] for part in explained(completer, CODE, PLACE)["parts"]} == {"kept"}


def test_a_character_of_several_tokens_belongs_to_the_later_piece(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("日本")
    prompt = Prompt((PromptPart("typed", ids),), b"", ids)
    for reused in range(len(ids) + 1):
        parts = prompt_parts(tokenizer, prompt, Costs(reused=reused, recomputed=len(ids) - reused))
        assert "".join(part.text for part in parts) == "日本"
        assert [part.tokens for part in parts] == [size for size in (reused, len(ids) - reused) if size]


# Who said it


REPEATED = "value = line.split(separator)\n"
ELSEWHERE = f"import os\n\n\ndef parts(line, separator):\n    {REPEATED}    return value\n"
LISTENING = replace(CACHE, memory_shares=(0.0, 0.0, *(0.99,) * 14))  # believes the repository alone


def view_of(tokenizer: Tokenizer, texts: dict[str, str]) -> CountsView:
    """A repository of these files."""
    documents = [CountedDocument(path, path.encode(), tokenizer.encode(text)) for path, text in texts.items()]
    return EMPTY.with_changes((), documents).without(())


@pytest.mark.parametrize("explicit", [False, True], ids=["typing", "key"])
def test_words_name_the_places_of_the_repository_that_said_them(
    folder: Path, tokenizer: Tokenizer, explicit: bool
) -> None:
    completer, _ = maker(folder, cache=LISTENING)()
    counts = view_of(tokenizer, {"/project/parts.py": ELSEWHERE, "/project/other.py": "x = 1\n" * 9})
    text = "def again(line, separator):\n    value = line.split("
    request = Request("file:///a.py", text, len(text), explicit, counts=counts)
    answer = completer.complete(request, NEVER)
    assert (answer.text + answer.hidden).startswith("separator)")
    told = completer.explain(request, answer)["suggestion"]
    assert isinstance(told, dict)
    first = told["words"][0]
    assert first["text"] == "separator" and first["repository"] > 0.9
    assert first["model"] + first["file"] + first["repository"] == pytest.approx(1)
    place, *_ = first["from"]
    assert (place["path"], place["line"]) == ("/project/parts.py", 5) and 3 <= place["tokens"] <= 16
    assert "".join(word["text"] for word in told["words"]) == told["shown"] + told["hidden"]


def test_typing_through_a_suggestion_keeps_who_said_the_rest(folder: Path, tokenizer: Tokenizer) -> None:
    completer, _ = maker(folder, cache=LISTENING)()
    counts = view_of(tokenizer, {"/project/parts.py": ELSEWHERE})
    text = "def again(line, separator):\n    value = line.split("
    completer.complete(Request("file:///a.py", text, len(text), counts=counts), NEVER)
    typed = f"{text}sepa"
    request = Request("file:///a.py", typed, len(typed), counts=counts)
    answer = completer.complete(request, NEVER)
    assert answer.costs.recomputed == answer.costs.passes == 0
    told = completer.explain(request, answer)["suggestion"]
    assert isinstance(told, dict)
    assert told["words"][0]["text"] == "rator"
    assert told["words"][0]["from"][0]["line"] == 5


def test_without_a_repository_no_place_is_named(made: Make) -> None:
    completer, _ = made()
    answer = ask(completer, CODE, PLACE)
    told = completer.explain(Request("file:///a.py", CODE, PLACE), answer)["suggestion"]
    for word in told["words"] if isinstance(told, dict) else ():
        assert word["repository"] == 0 and word["from"] == []
        assert word["model"] + word["file"] == pytest.approx(1)


def test_another_answer_is_not_explained_by_the_last_one(made: Make) -> None:
    completer, _ = made()
    ask(completer, CODE, PLACE)
    other = Answer("other", words=(("other", 0.5),))
    told = completer.explain(Request("file:///a.py", CODE, PLACE), other)["suggestion"]
    word = {"text": "other", "probability": 0.5, "model": None, "file": None, "repository": None, "from": []}
    word["source"] = None
    assert told == {"shown": "other", "hidden": "", "words": [word]}


# Forgetting


def test_a_forgotten_document_that_comes_back_has_its_frames(made: Make) -> None:
    completer, _ = made()
    first = ask(completer, CODE, PLACE)
    assert ask(completer, CODE, PLACE).costs.frame == "kept"
    completer.close_document("file:///a.py", save=True)
    again = ask(completer, CODE, PLACE)
    assert (again.text, again.costs.frame, again.costs.recomputed) == (first.text, "kept", 0)


def test_a_forgotten_document_gives_its_arena_up_first(made: Make) -> None:
    completer, _ = made()
    ask(completer, CODE, PLACE, uri="a")
    other = "import os\n" * 9
    ask(completer, other, 20, uri="b")
    completer.close_document("b", save=True)
    ask(completer, "\n\n", 1, uri="c")
    assert ask(completer, CODE, PLACE, uri="a").costs.recomputed == 0


def test_forgetting_an_unknown_document_does_nothing(made: Make) -> None:
    completer, _ = made()
    there = ask(completer, CODE, PLACE, uri="a")
    completer.close_document("file:///never.py", save=True)
    again = ask(completer, CODE, PLACE, uri="a")
    assert (again.text, again.costs.frame, again.costs.recomputed) == (there.text, "kept", 0)
