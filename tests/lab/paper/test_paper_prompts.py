"""The EFIM paper's experiment: what users work in, and what they ask for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.studies.paper.prompts import EFIM_REUSE, FIM_REUSE, NO_REUSE, Workload, cut_workload
from efim_lab.studies.paper.texts import LONGEST_TEXT, choose_texts, longest
from model_runtime.errors import ModelError
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer

TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)
ROUNDS = st.integers(1, 8)


def test_a_text_is_cut_as_in_the_paper() -> None:
    typed = ("bb", "bbcc", "bbccdd", "bbccddee", "bbccddeeff")
    assert cut_workload("aabbccddeeffggTHE OTHER HALF", 5) == Workload("aa", "THE OTHER HALF", typed)


@given(TEXTS, ROUNDS)
def test_each_round_adds_a_slice_and_the_last_slice_stays_unseen(text: str, rounds: int) -> None:
    work, half = cut_workload(text, rounds), len(text) // 2
    assert len(work.typed) == rounds
    assert text[half:] == work.tail
    assert all(text[:half].startswith(work.head + typed) for typed in work.typed)
    ends = [0, *(len(work.head + typed) for typed in ("", *work.typed)), half]
    slices = [after - before for before, after in pairwise(ends)]
    assert len(slices) == rounds + 2
    assert max(slices) - min(slices) <= 1


@given(TEXTS, ROUNDS)
def test_prompts_spell_the_text_in_their_order(tokenizer: Tokenizer, text: str, rounds: int) -> None:
    template, work = find_template(tokenizer), cut_workload(text, rounds)
    fim, efim = (
        list(map(tokenizer.decode, each.prompts(tokenizer, template, work))) for each in (FIM_REUSE, EFIM_REUSE)
    )
    head, tail, typed = work
    assert fim == [f"<|fim_prefix|>{head}{each}<|fim_suffix|>{tail}<|fim_middle|>" for each in typed]
    assert efim == [f"<|fim_prefix|>{head}<|fim_suffix|>{tail}<|fim_middle|>{each}" for each in typed]
    assert list(map(tokenizer.decode, NO_REUSE.prompts(tokenizer, template, work))) == fim


DOCUMENTS = [
    CodeDocument(f"{name}.py", "".join(f"{name}_{number} = {name}({number})\n" for number in range(120)))
    for name in ("first", "second", "third")
]


@given(st.integers(1, 9), st.integers(64, 300))
def test_texts_are_pieces_of_files_of_all_lengths_allowed(tokenizer: Tokenizer, users: int, most: int) -> None:
    try:
        texts = choose_texts(DOCUMENTS, tokenizer, users, most)
    except WorkError:
        assert users > 3  # each file has at least one piece
        return
    assert len(texts) == users
    assert all(most // 2 <= len(tokenizer.encode(text)) <= most for text in texts)
    left = [document.text for document in DOCUMENTS]
    for number, text in enumerate(texts):
        [at] = [at for at, rest in enumerate(left) if text in rest]
        assert number >= 3 or at == number  # of every file one, before any has two
        left[at] = left[at].replace(text, "|", 1)  # none is given to two users
    assert texts == choose_texts(DOCUMENTS, tokenizer, users, most)


def test_lengths_differ_between_files_and_within_one(tokenizer: Tokenizer) -> None:
    lengths = [len(tokenizer.encode(text)) for text in choose_texts(DOCUMENTS, tokenizer, 6, 400)]
    assert max(lengths[:3]) - min(lengths[:3]) > 30
    assert max(lengths[3:]) - min(lengths[3:]) > 30


def test_too_little_code_is_told(tokenizer: Tokenizer) -> None:
    with pytest.raises(WorkError, match=r"the data has \d+ texts of 100 tokens or more, for 99 users: name a folder"):
        choose_texts(DOCUMENTS, tokenizer, 99, 200)


def test_texts_are_as_long_as_the_context_and_the_paper_allow() -> None:
    assert longest(1 << 17, 128) == LONGEST_TEXT
    assert longest(2048, 128) == 2048 - 128 - 35
    with pytest.raises(ModelError, match="a context of 256 tokens has no room for 200 new ones"):
        longest(256, 200)
