"""Healing with every kind of tokenizer: what is taken back is said again, and typing goes on at no cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from transformers.convert_slow_tokenizer import bytes_to_unicode

from efim_ls.settings import DEFAULTS
from model_runtime.ids import common_prefix
from model_runtime.prompt.pieces import LONGEST_FRAGMENT
from model_runtime.prompt.prompt import LONGEST_STUB_BYTES, assemble, build, heal
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import Watched, quick_decoder_of
from tests.engine.prompts import generate, spelled
from tests.models import CODE, Tiny, make
from tests.tiny_tokenizers import KINDS, SENTENCE_PIECE, text_of, tokenizer

unhurried = settings(max_examples=60)
quickly = settings(max_examples=12)
kinds = pytest.mark.parametrize("kind", KINDS)
BLANKS = [*" \t\n", "\r\n", "\n    ", "\n\t\t", "    "]
WORDS_AND_SIGNS = [*".,:;(){}[]=_'#1", "def", " return", "name", "für", "日本", "😀"]
code = st.lists(st.sampled_from([*BLANKS, *WORDS_AND_SIGNS]), max_size=20).map("".join)
in_line = st.sampled_from([" ", "    ", "\t", *WORDS_AND_SIGNS, "e", "l", "A", "//"])
rest_of_line = st.lists(in_line, max_size=5).map("".join)
LINES = [*CODE.splitlines(keepends=True)[6:14], "\tgröße = self.name[0](日本) # 😀\n"]


@pytest.fixture(scope="module", autouse=True)
def given_back() -> Iterator[None]:
    """Others count the arenas that are alive."""
    yield
    engine.cache_clear()


@lru_cache(None)
def engine(kind: str) -> Watched:
    """A tiny random model with a tokenizer of the kind."""
    with TemporaryDirectory() as folder:
        path = make(Path(folder), Tiny(vocabulary=tokenizer(kind).vocab))
        return Watched(quick_decoder_of(path), tokenizer(kind))


@kinds
@unhurried
@given(typed=code)
@example(typed="def f():\n    ")
@example(typed="x = '\ud83d")
@example(typed="# " + "日本" * 12)
def test_what_is_done_and_the_stub_make_up_what_was_typed(kind: str, typed: str) -> None:
    done, stub = heal(tokenizer(kind), typed)
    assert done + stub == typed
    assert len(stub.encode("utf-8", "replace")) <= LONGEST_STUB_BYTES < DEFAULTS.max_new_tokens
    if kind not in ("starcoder", "stable-code", "gpt-oss"):
        assert "\n" not in stub and "\r" not in stub


@kinds
@unhurried
@given(typed=code, rest=rest_of_line)
@example("x:\n\t\t", "ret")
@example("x\n\ny", "")
@example("x\n  ", "    y")
@example("x'v", "e")
@example("it'l", "l")
@example("can'", "t")
@example("日B", "c")
@example("x;\n", "// y")
@example("x;\n/", "/ y")
@example("if x {\n\t\t}", " else {")
@example("if x:\n    c", "lass")
@example("if x:\n   ", "     y")
@example("x = SPA", "CE")
def test_what_is_done_has_its_tokens_however_the_line_goes_on(kind: str, typed: str, rest: str) -> None:
    """The prompt ends where the tokenizer has a boundary, so that it shows the model what a file would."""
    assume(len(typed + rest) < LONGEST_FRAGMENT)
    done, whole = (tokenizer(kind).encode(text).tolist() for text in (heal(tokenizer(kind), typed)[0], typed + rest))
    assert whole[: len(done)] == done


@pytest.mark.parametrize(
    "kind, typed, stub",
    [
        ("qwen", "def f():\n    ", "    "),
        ("starcoder", "def f():\n    ", "\n    "),
        ("starcoder", "def f():\n", "\n"),
        ("starcoder", "def f():\n    ret", " ret"),
        ("llama", "def f():\n    ", "    "),
        ("llama", "def f():\n", ""),
        ("starcoder", "x:\n\t\tret", "\tret"),
        ("starcoder", "x:\n\t\t1", "1"),
        ("starcoder", "x\n\ny", "\ny"),
        ("starcoder", "x\ny", "y"),
        ("stable-code", "x:\n    ret", "ret"),
        ("gpt-oss", "x;\n", ";\n"),
        ("gpt-oss", "x\n", ""),
        ("qwen", "x:\n\t\t(", "\t("),
        ("llama", "x = self.na", ".na"),
        ("gemma", "x = rec", " rec"),
    ],
)
def test_the_stub_is_what_files_would_spell_otherwise(kind: str, typed: str, stub: str) -> None:
    assert heal(tokenizer(kind), typed)[1] == stub


@kinds
@quickly
@given(head=code, typed=code)
@example(head="a\n", typed="    für")
@example(head="", typed="x = '日")
@example(head="", typed="# " + "日本" * 12)
def test_what_is_said_begins_with_what_was_taken_back(kind: str, head: str, typed: str) -> None:
    prompt = build(tokenizer(kind), find_template(tokenizer(kind)), head, "", typed)
    said, limit = engine(kind), min(max(8, len(prompt.stub)), DEFAULTS.max_new_tokens)
    generate(said, prompt, limit=limit)
    assert spelled(said.log, tokenizer(kind)).startswith(prompt.stub)


@quickly
@given(typed=code, missing=st.sets(st.sampled_from("x = '😀日ü".encode()), min_size=1))
@example(typed="x = '😀", missing={0xF0})
def test_what_no_token_spells_is_not_taken_back(typed: str, missing: set[int]) -> None:
    """StarCoder2's vocabulary lacks a byte of rare characters, one's own perhaps all emoji."""
    content, letters = json.loads(text_of("starcoder", "starcoder")), bytes_to_unicode()
    model, lost = content["model"], {letters[byte] for byte in missing}
    kept = [token for token in model["vocab"] if lost.isdisjoint(token)]
    model["vocab"] = {token: i for i, token in enumerate(kept)}
    model["merges"] = [merge for merge in model["merges"] if lost.isdisjoint("".join(merge))]
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "tokenizer.json").write_text(json.dumps(content | {"added_tokens": []}))
        made = Tokenizer(path)
    done, stub = heal(made, typed)
    assert done + stub == typed and missing.isdisjoint(stub.encode())


@kinds
def test_an_answer_that_a_limit_cuts_off_inside_what_was_taken_back_is_empty(kind: str) -> None:
    prompt = assemble(tokenizer(kind), find_template(tokenizer(kind)), "", "", "x", stub="größe_日本 + 1")
    made = generate(engine(kind), prompt, limit=2)
    assert made.text == ""
    assert prompt.stub.startswith(spelled(engine(kind).log, tokenizer(kind)))


def recomputed(prompts: list[np.ndarray]) -> list[int]:
    """Tokens that a cache of the prompt before would not hold, up to and with each prompt but the first."""
    return list(accumulate(len(ids) - common_prefix(before, ids) for before, ids in pairwise(prompts)))


@kinds
@pytest.mark.parametrize("line", LINES)
def test_healing_has_cost_no_more_than_two_tokens_more_at_any_key(kind: str, line: str) -> None:
    made, template = tokenizer(kind), find_template(tokenizer(kind))
    typed = ["x = 1\n" + line[:end] for end in range(len(line) + 1)]
    healed = [build(made, template, "head\n", "tail\n", each).ids for each in typed]
    plain = [assemble(made, template, "head\n", "tail\n", each).ids for each in typed]
    assert all(less <= more + 2 for less, more in zip(recomputed(healed), recomputed(plain), strict=True))


@kinds
def test_typing_on_inside_a_word_changes_no_token_but_few(kind: str) -> None:
    made, word = tokenizer(kind), "records"
    prompts = [made.encode(heal(made, "    for " + word[:end])[0]) for end in range(1, len(word) + 1)]
    assert recomputed(prompts)[-1] <= (2 if kind in SENTENCE_PIECE else 0)
