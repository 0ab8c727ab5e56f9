import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer

from efim_lab.gate import network
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.samples import bpe

SOURCE = Path(bpe.__file__).read_text(encoding="utf-8")
TOKENIZER = bpe.train([SOURCE], vocabulary=500)
BLANKS = ["\n", "\r\n", "\r", " ", "  ", "    ", "\t", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u3000"]
WORDS = ["a", "def", "x1", "é", "(", "):", ".", '"', "#", "==", "\U0001f600", "\u0301"]
CODE_LIKE = st.lists(st.sampled_from(BLANKS) | st.sampled_from(WORDS), max_size=30).map("".join)


def before_written_lines(text: str) -> list[str]:
    """Cut a text before each line that is not blank."""
    pieces = [""]
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text):
        if line.isspace():
            pieces[-1] += line
        else:
            pieces.append(line)
    return pieces


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False).ids


@given(CODE_LIKE | st.text(max_size=60))
def test_lines_may_be_tokenized_apart(text: str):
    assert encode(text) == [token for piece in before_written_lines(text) for token in encode(piece)]


@given(CODE_LIKE | st.text(max_size=60))
def test_decoding_gives_the_text_back(text: str):
    assert TOKENIZER.decode(encode(text), skip_special_tokens=False) == text


def test_markers_come_first_and_every_byte_is_there():
    assert [TOKENIZER.token_to_id(token) for token in bpe.SPECIAL] == list(range(7))
    assert all(TOKENIZER.token_to_id(byte) is not None for byte in pre_tokenizers.ByteLevel.alphabet())


def test_a_marker_in_a_file_is_text():
    assert bpe.ID[bpe.MIDDLE] not in encode(f"x = '{bpe.MIDDLE}'\n")


def test_transformers_reads_what_is_saved(tmp_path: Path):
    bpe.save(TOKENIZER, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(SOURCE)["input_ids"] == encode(SOURCE) == bpe.load(tmp_path).encode(SOURCE).ids
    assert (loaded.eos_token_id, loaded.pad_token_id) == (bpe.ID[bpe.END], bpe.ID[bpe.PAD])


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(WorkError, match="make it with `tokenizer`"):
        bpe.load(tmp_path)


def test_a_tokenizer_with_other_markers_is_refused(tmp_path: Path):
    content = json.loads(TOKENIZER.to_str())
    content["added_tokens"] = []
    Tokenizer.from_str(json.dumps(content).replace("<|fim_pad|>", "<|fim_gap|>")).save(
        str(tmp_path / "tokenizer.json")
    )
    with pytest.raises(WorkError, match="other special tokens"):
        bpe.load(tmp_path)


def test_the_network_knows_the_sizes_of_the_vocabulary():
    assert (network.VOCABULARY, network.CONTEXT) == (bpe.VOCABULARY, bpe.CONTEXT)
    assert bpe.ID[bpe.PAD] == network.PADDING_ID
