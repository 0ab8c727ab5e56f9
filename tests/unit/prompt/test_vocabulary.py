"""Tokens that fit a known beginning, against a search through the whole vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer, Vocabulary

unhurried = settings(max_examples=80)
spellings = st.text(st.sampled_from("ab\xff"), max_size=4).map(lambda text: text.encode("latin-1"))
TABLE = Tokenizer(EMBEDDED / "tokenizer.json").token_bytes
REAL = Vocabulary(TABLE)


def reference(table: list[bytes], stub: bytes) -> set[int]:
    return {i for i, token in enumerate(table) if token and (token.startswith(stub) or stub.startswith(token))}


@unhurried
@given(st.lists(spellings, max_size=12), spellings.filter(bool))
@example([b"a", b"ab", b"a"], b"ab")
def test_fitting_tokens_are_those_that_agree_with_the_stub(table: list[bytes], stub: bytes) -> None:
    fitting = Vocabulary(table).fitting(stub).tolist()
    assert len(fitting) == len(set(fitting))
    assert set(fitting) == reference(table, stub)


@unhurried
@given(st.lists(spellings, max_size=12), spellings)
def test_a_text_is_extended_by_tokens_that_spell_it_and_more(table: list[bytes], text: bytes) -> None:
    assert Vocabulary(table).extends(text) == any(token != text and token.startswith(text) for token in table)


@pytest.mark.parametrize(
    "stub", [b"s", b" ret", b"self", b"    ", "é".encode(), b"\xff", b"no_such_word_at_all", b"\n"]
)
def test_fitting_tokens_of_the_real_vocabulary(stub: bytes) -> None:
    assert set(REAL.fitting(stub).tolist()) == reference(TABLE, stub)


def test_every_byte_can_be_spelled() -> None:
    every = [bytes([byte]) for byte in range(256)]
    assert set(every) <= set(TABLE)
    assert all(len(REAL.fitting(byte)) for byte in every)


def test_tokens_that_spell_nothing_never_fit() -> None:
    assert Vocabulary([b"", b"a", b"", b"ab"]).fitting(b"a").tolist() == [1, 3]


def test_nothing_fits_in_an_empty_vocabulary() -> None:
    assert Vocabulary([]).fitting(b"a").tolist() == []
