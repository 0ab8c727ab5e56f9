"""How likely each beginning of a text is, with tokens and chances that a person can check."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.counts.segment import CountedDocument
from model_runtime.counts.snapshot import EMPTY, CountedPlace
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import Output, TextProbability, byte_offsets, decoded
from model_runtime.engine.sampler import Choice, Sampler, Shares
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from model_runtime.prompt.tokenizer import Tokenizer, Vocabulary

SPELLED = [b"a", b"b", b"ab", b"(", b")", b"):", b" ", b"\n", b"\n  ", b" a", b"\xc3", b"\xa9", b"\r\n", b""]
END = SPELLED.index(b"")
TOKENIZER = cast(
    "Tokenizer", SimpleNamespace(token_bytes=SPELLED, vocab=len(SPELLED), vocabulary=Vocabulary(SPELLED))
)
SAMPLER = Sampler(TOKENIZER, None, [END])
ENDLESS = StopRule(multiline=True, indent=0, max_lines=100)

chances = st.lists(st.floats(0.01, 1), min_size=len(SPELLED), max_size=len(SPELLED))
said = st.lists(st.tuples(st.sampled_from(range(END)), chances), min_size=1, max_size=8)


def choice(token: int, weights: Sequence[float]) -> Choice:
    shares = np.array(weights, dtype=np.float32) / np.float32(sum(weights))
    return Choice(token, float(shares[token]), np.arange(len(weights), dtype=np.int32), shares)


def likelihood(tokens: Sequence[tuple[int, Sequence[float]]], stub: bytes = b"") -> TextProbability:
    """Of a text that was chosen so, and then ended."""
    output = Output(SAMPLER, stub, ENDLESS)
    for token, weights in [*tokens, (END, [1.0] * len(SPELLED))]:
        output.append(choice(token, weights))
    return output.likelihood


def weights(**others: float) -> list[float]:
    """Chances of tokens by what they spell; the rest is spread over the others."""
    named = {name.replace("_", " ").encode(): chance for name, chance in others.items()}
    left = (1 - sum(named.values())) / (len(SPELLED) - len(named))
    return [named.get(spelled, left) for spelled in SPELLED]


def token(spelled: bytes) -> int:
    return SPELLED.index(spelled)


def test_a_word_is_as_likely_as_its_tokens_and_its_end() -> None:
    follows = [0.0] * len(SPELLED)
    follows[token(b"(")], follows[token(b"b")], follows[END] = 0.6, 0.3, 0.1
    made = likelihood([(token(b"a"), weights(a=0.5)), (token(b"("), follows)])
    ends = {made.text[: end.at]: end.probability for end in made.word_ends()}
    assert ends == pytest.approx({"a": 0.5 * 0.7, "a(": 0.5 * 0.6})


def test_inside_a_token_every_token_counts_that_begins_so() -> None:
    chances = [0.0] * len(SPELLED)
    chances[token(b")")], chances[token(b"):")] = 0.25, 0.75
    ends = likelihood([(token(b"):"), chances)]).word_ends()
    assert [(end.at, round(end.probability, 6)) for end in ends] == [(1, 1.0), (2, 0.75)]


def test_a_stub_leaves_only_the_tokens_that_spell_it() -> None:
    chances = [0.0] * len(SPELLED)
    chances[token(b"ab")], chances[token(b"b")] = 0.2, 0.8
    made = likelihood([(token(b"ab"), chances)], stub=b"a")
    assert made.text == "b"
    assert [end.probability for end in made.word_ends()] == pytest.approx([(len(SPELLED) - 5) / len(SPELLED)])


def test_what_a_limit_cut_off_inside_a_word_is_no_word() -> None:
    output = Output(SAMPLER, b"", ENDLESS)
    output.append(choice(token(b"("), weights()))
    output.append(choice(token(b"a"), weights()))
    assert [end.probability > 0 for end in output.likelihood.word_ends()] == [True, False]


@given(said)
def test_ends_are_no_blanks_and_cut_no_word(tokens: list[tuple[int, list[float]]]) -> None:
    made = likelihood(tokens)
    for end in made.word_ends():
        assert not made.text[end.at - 1].isspace()
        assert not (made.text[end.at - 1].isalnum() and made.text[end.at : end.at + 1].isalnum())
        assert 0 < end.probability <= 1 + 1e-6


@given(said)
def test_the_more_stands_there_already_the_likelier_is_the_rest(tokens: list[tuple[int, list[float]]]) -> None:
    made = likelihood(tokens)
    probability = {0: {end.at: end.probability for end in made.word_ends()}}
    for start in range(1, len(made.text) + 1):
        probability[start] = {end.at: end.probability for end in made.word_ends(start)}
        assert probability[start].keys() == {at for at in probability[0] if at > start}
        for at, likely in probability[start].items():
            assert likely >= probability[start - 1][at] * (1 - 1e-5)


@given(said, st.data())
def test_a_beginning_is_as_likely_as_it_was_in_the_whole(
    tokens: list[tuple[int, list[float]]], data: st.DataObject
) -> None:
    made = likelihood(tokens)
    size = data.draw(st.integers(0, len(made.text)))
    before = {end.at: end.probability for end in made.word_ends() if end.at < size}
    after = {end.at: end.probability for end in made.along(made.text[:size]).word_ends() if end.at < size}
    assert after == before


# Another text


def test_another_text_comes_with_the_tokens_that_begin_it() -> None:
    made = likelihood(
        [(token(b"ab"), weights(ab=0.5, a=0.2, b=0.1)), (token(b"("), weights(**{"(": 0.6, "):": 0.3}))]
    )
    assert made.begins(0, "ab") == pytest.approx(0.5 + 0.2), "of what follows the shorter token nothing is known"
    assert made.begins(0, "a") == pytest.approx(0.5 + 0.2)
    assert made.begins(0, "ab(") == pytest.approx(0.5 * 0.6 + 0.2)
    assert made.begins(0, "ab):") == pytest.approx(0.5 * (0.3 + made.begins(2, ")")) - 0.5 * 0.3 + 0.2)
    assert made.begins(0, "b") == pytest.approx(0.1)
    assert made.begins(2, "):") == made.begins(2, ")")
    assert made.begins(1, "b") == pytest.approx(1.0), "once its beginning is typed"
    assert made.begins(1, "(") == pytest.approx(0.2 / 0.7)


def slow_begins(tokens: Sequence[tuple[int, Sequence[float]]], stub: bytes, before: bytes, text: bytes) -> float:
    """Add up the chances of all ways to go on that begin with a text, from a place before which all is typed."""
    spelled, given, found, reached = b"", stub + before if before else b"", 0.0, 1.0
    for chosen, chances in [*tokens, (END, [1.0] * len(SPELLED))]:
        left, goes_on = stub[len(spelled) :], spelled + SPELLED[chosen]
        if before and goes_on == given[: len(goes_on)]:
            spelled = goes_on
            continue
        ways = {spelled + SPELLED[each]: chance for each, chance in enumerate(chances) if agree(SPELLED[each], left)}
        if left or len(spelled) < len(given):  # more stands there: what ends here is none of them
            del ways[spelled]
        ways = {way: chance for way, chance in ways.items() if agree(way, given) or len(spelled) >= len(given)}
        wanted = stub + before + text
        shares = {way: reached * chance / sum(ways.values()) for way, chance in ways.items()}
        found += sum(share for way, share in shares.items() if way not in (goes_on, spelled) and agree(way, wanted))
        spelled, reached = goes_on, shares[goes_on]
        if chosen == END or not agree(spelled, wanted):
            return found
        if spelled.startswith(wanted):
            return found + reached
    return found


def agree(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


@given(said, st.integers(0, 3), st.text("ab(): ", min_size=1, max_size=4), st.data())
def test_another_text_is_as_likely_as_a_slow_count_says(
    tokens: list[tuple[int, list[float]]], size: int, text: str, data: st.DataObject
) -> None:
    spelled = b"".join(SPELLED[each] for each, _ in tokens)
    stub = spelled[:size]
    made = likelihood(tokens, stub)
    start = data.draw(st.integers(0, len(made.text)))
    before = spelled[len(stub) :][: byte_offsets(spelled[len(stub) :])[start]]
    assert made.begins(start, text) == pytest.approx(slow_begins(tokens, stub, before, text.encode()), rel=1e-4)


@pytest.mark.parametrize(
    ("whole", "text"),
    [("a\n  ab", "a\n\tab"), ("\n  a", "a"), ("a\nb\nb\nb\n(", "a\nb\n("), ("a ab (", "a ab"), ("  a  b", "a b")],
)
def test_a_cleaned_text_is_as_likely_as_the_characters_that_are_left(whole: str, text: str) -> None:
    tokens = [(token(character.encode()), weights()) for character in whole]
    found, ends = likelihood(tokens).along(text), likelihood(tokens).word_ends()
    assert found.text == text
    for end in found.word_ends():
        kept = whole.rfind(text[: end.at].split()[-1]) if end.at == len(text) else None
        assert end.probability in [each.probability for each in ends], (kept, end)


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\xc3", b"\xa9", b"\xf0\x9f\x98\x80", b"\xff"])).map(b"".join))
def test_offsets_of_characters_are_where_they_decode(spelled: bytes) -> None:
    offsets, text = byte_offsets(spelled), decoded(spelled)
    assert len(offsets) == len(text) + 1
    for at in range(len(text) + 1):
        assert decoded(spelled[: offsets[at]]) in (text[:at], text[:at] + "\n", text[:at].removesuffix("\n") + "\n")


# Who said it

COUNTS = Ngrams((0.5,), half_life=1e6, memory_shares=(0.0, 0.0, 0.5))
MIXING = Sampler(TOKENIZER, COUNTS, [END])


def ids(*spelled: bytes) -> Ids:
    return np.array([token(each) for each in spelled], dtype=np.int32)


def test_words_know_how_much_of_them_model_file_and_memory_said() -> None:
    # After "ab (" the memory says "a" and the file "b"; then the memory goes on with ")", and the file has nothing.
    documents = [
        CountedDocument("/one.py", b"1", ids(b"ab", b" ", b"(", b"a", b")")),
        CountedDocument("/two", b"2", ids()),
    ]
    view = EMPTY.with_changes((), documents).without(())
    history = ids(b"(", b"b", b"ab", b" ", b"(")
    output = Output(MIXING, b"", ENDLESS, history)
    for row in (history, np.append(history, ids(b"a")), np.append(history, ids(b"a", b")"))):
        stub = b"" if len(row) > len(history) + 1 else b"a)"[len(row) - len(history) :][:1]
        output.append(MIXING.pick(torch.zeros(len(SPELLED)), row, stub, counts=view))
    made = output.likelihood
    assert made.text.startswith("a)")
    of_model = 1 / len(SPELLED)
    first = Shares(0.25 * of_model, 0.0, 0.5)
    first = Shares(*(each / sum(first) for each in first))
    second = Shares(*(each / (0.5 * of_model + 0.5) for each in (0.5 * of_model, 0.0, 0.5)))
    assert made.shares(0, 1) == pytest.approx(first)
    assert made.shares(1, 2) == pytest.approx(second)
    assert made.shares(0, 2) == pytest.approx([(a + b) / 2 for a, b in zip(first, second, strict=True)])
    assert made.shares(1, 1) == Shares()
    assert made.places(view, 0, 1, 3) == [CountedPlace("/one.py", 3, 3)]
    assert made.places(view, 0, 2, 3) == [CountedPlace("/one.py", 3, 4)]
    assert made.along(made.text[:1]).shares(0, 1) == made.shares(0, 1)


def test_what_the_file_said_is_known_too() -> None:
    history = ids(b"(", b"b", b"(")
    output = Output(MIXING, b"", ENDLESS, history)
    output.append(MIXING.pick(torch.zeros(len(SPELLED)), history, b"", counts=EMPTY.without(())))
    model = 0.5 / len(SPELLED) / (0.5 / len(SPELLED) + 0.5)
    assert output.text == "b"
    assert output.likelihood.shares(0, 1) == pytest.approx((model, 1 - model, 0.0))
    assert not output.likelihood.places(EMPTY.without(()), 0, 1, 3)


def test_without_counts_the_model_said_everything() -> None:
    assert likelihood([(token(b"a"), weights(a=0.5))]).shares(0, 1) == (1.0, 0.0, 0.0)
