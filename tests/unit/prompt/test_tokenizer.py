"""Text to ids and back with the real tokenizer; cutting into fragments must not change what the model reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.errors import ModelError
from model_runtime.prompt.pieces import LONGEST_FRAGMENT, fragments
from model_runtime.prompt.tokenizer import Tokenizer
from tests.unit.prompt.each_tokenizer import each_tokenizer

PATH = EMBEDDED / "tokenizer.json"
TOKENIZER = Tokenizer(PATH)
SECOND = Tokenizer(PATH)
RAW = tokenizers.Tokenizer.from_file(str(PATH))
RAW.encode_special_tokens = True

unhurried = settings(max_examples=80)
code = st.lists(
    st.sampled_from(
        [
            *" \t\n\r\f\x0b\x1c\x85\u2028.,:;(){}[]=_'#1",
            "\r\n",
            "\n\n",
            "    ",
            "def",
            "naïve",
            "日本",
            "😀",
            "e\u0301",
        ]
        + ["<|fim_middle|>", "<|endoftext|>", "<|fim"]
    ),
    max_size=40,
).map("".join)
texts = st.one_of(code, st.text(st.characters(), max_size=60))
ended = st.sampled_from(["\n", "\r\n", "\r", " \n", "\n\n\t\n"])


def has_surrogates(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


@unhurried
@given(texts)
@example("a\r\nb\rc\n\n  d\n   ")
def test_fragments_join_to_the_text(text: str) -> None:
    pieces = list(fragments(text))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= LONGEST_FRAGMENT for piece in pieces)


@unhurried
@given(st.lists(st.tuples(st.sampled_from(["x", "  y = 1", "\tz", "\f#"]), ended), max_size=8))
def test_every_line_that_is_not_blank_begins_a_fragment(lines: list[tuple[str, str]]) -> None:
    assert list(fragments("".join(map("".join, lines)))) == ["".join(line) for line in lines]


@pytest.mark.parametrize("length", [256, 257, 512, 1000])
def test_a_long_line_is_cut_at_multiples_of_256(length: int) -> None:
    line = "x" * length
    assert list(fragments("a\n" + line))[1:] == [line[at : at + 256] for at in range(0, length, 256)]


@each_tokenizer
@unhurried
@given(texts)
def test_ids_are_those_of_the_fragments_in_turn(tokenizer: Tokenizer, text: str) -> None:
    apart = [i for piece in fragments(text) for i in tokenizer.encode(piece).tolist()]
    assert tokenizer.encode(text).tolist() == apart
    assert [count for _, count in tokenizer.pieces(text)] == [len(tokenizer.encode(p)) for p in fragments(text)]


@unhurried
@given(st.lists(texts, max_size=4))
def test_ids_do_not_depend_on_what_was_encoded_before(visits: list[str]) -> None:
    forwards = [TOKENIZER.encode(text).tolist() for text in visits]
    backwards = [SECOND.encode(text).tolist() for text in reversed(visits)]
    assert forwards == backwards[::-1]


@unhurried
@given(texts)
def test_cutting_before_lines_changes_no_token(text: str) -> None:
    assume(not has_surrogates(text) and all(len(piece) < LONGEST_FRAGMENT for piece in fragments(text)))
    assert TOKENIZER.encode(text).tolist() == RAW.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("path", [Path(__file__), Path(tokenizers.__file__)], ids=["this file", "a library's"])
def test_cutting_before_lines_changes_no_token_of_a_file(path: Path) -> None:
    text = path.read_text("utf-8")
    assert TOKENIZER.encode(text).tolist() == RAW.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", sorted(TOKENIZER.special))
def test_text_that_spells_a_special_token_is_text(name: str) -> None:
    special = set(TOKENIZER.special.values())
    for text in (name, f"x = '{name}'\n", name * 3, f"\n{name}\n"):
        ids = TOKENIZER.encode(text)
        assert special.isdisjoint(ids.tolist())
        assert TOKENIZER.decode(ids) == text


@each_tokenizer
@unhurried
@given(texts)
@example("\ud83d")
@example("a = '\ude00\n")
def test_token_bytes_join_to_the_texts_bytes(tokenizer: Tokenizer, text: str) -> None:
    spelled = b"".join(tokenizer.token_bytes[i] for i in tokenizer.encode(text).tolist())
    assert spelled == text.encode("utf-8", "replace")


@each_tokenizer
@unhurried
@given(texts)
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    assume(not has_surrogates(text))
    assert tokenizer.decode(tokenizer.encode(text)) == text


@each_tokenizer
def test_decoding_shows_special_tokens_by_name(tokenizer: Tokenizer) -> None:
    prefix, suffix, middle = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"
    marks = [np.array([tokenizer.special[name]], dtype=np.int32) for name in (prefix, suffix, middle)]
    ids = np.concatenate((marks[0], tokenizer.encode("ab"), marks[1], marks[2], tokenizer.encode("c\n")))
    assert tokenizer.decode(ids) == f"{prefix}ab{suffix}{middle}c\n"


@each_tokenizer
def test_decoding_replaces_what_is_not_utf8(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("\U0001fae8")
    assert len(ids) > 1
    assert "\ufffd" in tokenizer.decode(ids[:1])


def test_every_id_has_a_row_and_only_special_ones_spell_nothing() -> None:
    empty = {i for i, spelled in enumerate(TOKENIZER.token_bytes) if not spelled}
    assert TOKENIZER.vocab == RAW.get_vocab_size()
    assert empty == set(TOKENIZER.special.values())


@each_tokenizer
@pytest.mark.parametrize(
    "line, start", [("", 0), ("word", 0), ("a.b", 1), ("    x", 3), ("é = 日本語", 3), ("'😀é", 2)]
)
def test_what_is_unfinished_begins_where_the_pre_tokenizer_cuts(tokenizer: Tokenizer, line: str, start: int) -> None:
    assert tokenizer.unfinished(line) == start


@pytest.mark.parametrize("line", ["\ud83d", "x = '\ud83d", "\ude00y", "a\ud83d b"])
def test_the_unfinished_end_of_a_line_with_lone_surrogates_is_found(line: str) -> None:
    assert TOKENIZER.unfinished(line) == TOKENIZER.unfinished(line.encode("utf-8", "replace").decode())


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelError, match="tokenizer.json cannot be read"):
        Tokenizer(path)
    path.write_text("{")
    with pytest.raises(ModelError, match="tokenizer.json cannot be read"):
        Tokenizer(path)
