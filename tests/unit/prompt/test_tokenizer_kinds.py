"""Every kind of tokenizer that code models come with: texts spelled exactly, lines tokenized apart as together."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Raw

from model_runtime.errors import ModelError
from model_runtime.prompt import tokenizer as tokenizer_module
from model_runtime.prompt.pieces import LONGEST_FRAGMENT
from model_runtime.prompt.spelling import SPACE_SIGN, without_rewriting
from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import CODE
from tests.tiny_tokenizers import BOS, FAMILY, FIM, KINDS, text_of, tokenizer, write

unhurried = settings(max_examples=80)
BLANKS = [*" \t\n\r\f\x1c\x85\u2028", "\r\n", "\n\n", "\n    ", "  \n  ", "    "]
WORDS_AND_SIGNS = [*".,:;(){}[]=_'#1", "def", " return", "12", "naïve", "für", "À", "日本", "😀", "e\u0301"]
MARKERS = ["▁", "<0x0A>", "<s>", "<｜fim▁hole｜>", "▁<PRE>", "[SUFFIX]"]
parts = st.sampled_from([*BLANKS, *WORDS_AND_SIGNS, *MARKERS])
texts = st.one_of(st.lists(parts, max_size=30).map("".join), st.text(max_size=40))
kinds = pytest.mark.parametrize("kind", KINDS)


@lru_cache(None)
def whole(kind: str) -> Raw:
    """Tokenizes a text at once."""
    raw = Raw.from_str(json.dumps(without_rewriting(json.loads(text_of(kind, FAMILY[kind])))))
    raw.encode_special_tokens = True
    return raw


@kinds
@unhurried
@given(text=texts)
@example("x = '\ud83d")
def test_token_bytes_join_to_the_texts_bytes(kind: str, text: str) -> None:
    spelled = b"".join(tokenizer(kind).token_bytes[i] for i in tokenizer(kind).encode(text).tolist())
    assert spelled == text.encode("utf-8", "replace")


@kinds
@unhurried
@given(text=texts)
@example("def f():\n\n    return  \n        x\n")
@example(")\x1c\n  x\u2028\n")
def test_lines_tokenized_apart_are_the_tokens_of_the_whole(kind: str, text: str) -> None:
    assume(SPACE_SIGN not in text and all(len(each) < LONGEST_FRAGMENT for each, _ in tokenizer(kind).pieces(text)))
    assert tokenizer(kind).encode(text).tolist() == whole(kind).encode(text, add_special_tokens=False).ids


@kinds
@unhurried
@given(text=texts, run=st.integers(0, 40))
@example("x = 1\n" + "return value, other " * 40 + "\n  y\n", 5)
@example("x = '\ud83d'\n" * 3, 9)
def test_a_file_gets_the_tokens_of_its_lines(kind: str, text: str, run: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "RUN", run)
        assert tokenizer(kind).encode_file(text).tolist() == tokenizer(kind).encode(text).tolist()


@kinds
def test_lines_of_a_file_are_cut_apart(kind: str) -> None:
    lines = sum(bool(line.strip()) for line in CODE.splitlines())
    assert len(tokenizer(kind).pieces(CODE)) == pytest.approx(lines, abs=1)
    assert tokenizer(kind).encode(CODE).tolist() == whole(kind).encode(CODE, add_special_tokens=False).ids


@kinds
@unhurried
@given(words=st.lists(st.sampled_from(["a", "  b", "def f(x):", "日本 = 1"]), min_size=1, max_size=9), data=st.data())
def test_an_edit_in_a_line_changes_no_other_fragment(kind: str, words: list[str], data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(words) - 1))
    edited = [*words[:row], words[row] + data.draw(st.sampled_from(["x", " y", "é", ")"])), *words[row + 1 :]]
    before, after = (tokenizer(kind).pieces("\n".join(lines)) for lines in (words, edited))
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


@kinds
def test_tokens_are_those_of_the_published_file(kind: str) -> None:
    """The library, reading the file as it is, would only add a space in front where the family has one."""
    published = Raw.from_str(text_of(kind, FAMILY[kind])).encode(CODE, add_special_tokens=False).ids
    dummy = " " if kind in ("llama", "metaspace") else ""
    assert tokenizer(kind).encode(dummy + CODE).tolist() == published


@kinds
def test_markers_in_a_text_are_text(kind: str) -> None:
    for name in (*FIM[FAMILY[kind]], "<|endoftext|>", *([BOS[kind]] if kind in BOS else [])):
        for text in (name, f"x = '{name}'\n", name * 3):
            ids = tokenizer(kind).encode(text)
            assert set(tokenizer(kind).special.values()).isdisjoint(ids.tolist())
            assert tokenizer(kind).decode(ids) == text


@kinds
def test_only_special_tokens_spell_nothing(kind: str) -> None:
    empty = {i for i, spelled in enumerate(tokenizer(kind).token_bytes) if not spelled}
    assert empty == set(tokenizer(kind).special.values())
    assert {"<|endoftext|>", *FIM[FAMILY[kind]]} <= set(tokenizer(kind).special)


def test_letters_that_were_added_to_a_vocabulary_are_text() -> None:
    made = tokenizer("deepseek")
    ids = made.encode("für").tolist()
    assert len(ids) == 3 and made.token_bytes[ids[1]] == "ü".encode()
    assert ids[1] not in made.special.values()


@kinds
def test_a_file_is_not_read_line_by_line_where_that_is_the_same(kind: str) -> None:
    joined = list(tokenizer(kind)._runs(CODE))  # pyright: ignore[reportPrivateUsage]
    assert "".join(joined) == CODE
    joins = kind in ("deepseek", "llama3", "qwen", "stable-code", "starcoder")
    assert (len(joined) < len(tokenizer(kind).pieces(CODE))) is joins


@kinds
def test_no_space_is_put_in_front(kind: str) -> None:
    assert tokenizer(kind).decode(tokenizer(kind).encode("def")) == "def"
    assert tokenizer(kind).token_bytes[int(tokenizer(kind).encode("return")[0])][:1] == b"r"


@pytest.mark.parametrize("name", ["[PREFIX]", "[SUFFIX]"])
def test_a_familys_markers_are_special_even_as_plain_entries(name: str, tmp_path: Path) -> None:
    content = json.loads(text_of("llama", "none"))
    content["model"]["vocab"][name] = len(content["model"]["vocab"]) + 10
    assert Tokenizer(saved(tmp_path, content)).special[name] == content["model"]["vocab"][name]


@kinds
def test_the_bos_is_what_the_file_puts_in_front(kind: str) -> None:
    made = tokenizer(kind)
    assert made.bos == ((made.special[BOS[kind]],) if kind in BOS else ())


@pytest.mark.parametrize(
    "config, bos",
    [
        ({"add_bos_token": False, "bos_token": "<s>"}, []),
        ({"add_bos_token": True, "bos_token": "<|endoftext|>"}, ["<|endoftext|>"]),
        ({"add_bos_token": True, "bos_token": {"content": "<s>"}}, ["<s>"]),
        ({"add_bos_token": True, "bos_token": None}, []),
        ({"bos_token": "<|endoftext|>"}, ["<s>"]),
    ],
)
def test_tokenizer_config_decides_about_the_bos(config: dict[str, Any], bos: list[str], tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    made = Tokenizer(write(tmp_path, "llama"))
    assert made.bos == tuple(made.special[name] for name in bos)


@pytest.mark.parametrize(
    "text, reason",
    [
        ('{"add_bos_token": true, "bos_token": "<x>"}', "no bos_token '<x>'"),
        ("[", "cannot be read"),
        ("[1]", "cannot"),
    ],
)
def test_a_damaged_tokenizer_config_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(ModelError, match=f"{reason}.*fetch"):
        Tokenizer(write(tmp_path, "llama"))


def saved(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


UNIGRAM = {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}
WORD_PIECE = {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "continuing_subword_prefix": "##"}
WORDS = {"type": "BPE", "vocab": {"a": 0}, "merges": [], "end_of_word_suffix": "</w>"}
CHARACTERS = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    "model, pre, reason",
    [
        (UNIGRAM, None, "Unigram tokenizers are not supported: use a model with a BPE"),
        (WORD_PIECE, None, "WordPiece tokenizers are not supported: use a model with a BPE"),
        (WORDS, None, "marked word parts"),
        (CHARACTERS, None, "neither bytes nor every character"),
        (CHARACTERS | {"vocab": {"日": 0}}, BYTES, "not byte-level: fetch"),
        (CHARACTERS | {"vocab": {"a": 0, "b": 5}}, BYTES, "gaps"),
    ],
)
def test_what_cannot_spell_every_text_is_refused_by_name(
    model: dict[str, Any], pre: dict[str, Any] | None, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=reason) as refused:
        Tokenizer(saved(tmp_path, {"version": "1.0", "added_tokens": [], "pre_tokenizer": pre, "model": model}))
    assert str(tmp_path) in str(refused.value)


def test_a_sentence_piece_vocabulary_without_all_bytes_is_refused(tmp_path: Path) -> None:
    content = json.loads(text_of("llama", "codellama"))
    content["model"]["vocab"]["other"] = content["model"]["vocab"].pop("<0xF0>")
    with pytest.raises(ModelError, match="neither bytes nor every character"):
        Tokenizer(saved(tmp_path, content))
