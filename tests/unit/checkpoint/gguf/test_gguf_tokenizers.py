"""A tokenizer in a GGUF file gives the ids of the tokenizer.json that it was made of; markers and ends are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_runtime.checkpoint.gguf.cuts import CUTS
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.gguf.tokenizer import tokenizer_files
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.prompt.tokenizer import Tokenizer
from tests import tiny_tokenizers
from tests.engine.gguf_files import add_tokenizer, close, gguf, write
from tests.models import CODE, Tiny, make
from tests.real_tokenizers import REAL
from tests.unit.prompt.test_real_tokenizers import LINES, SIGNS

TEXTS = [
    CODE,
    SIGNS,
    *LINES,
    "  \n\n\n   x\t\ty" + " " * 21 + "z ü日本語 😀 ▁ <s> [INST] <|im_start|>\r\n 12345 it's I'LL\n",
]
KINDS = {
    "qwen": "qwen2", "llama3": "llama-bpe", "starcoder": "starcoder", "deepseek": "deepseek-coder",
    "stable-code": "gpt-2", "gpt-oss": "gpt-4o",
}  # fmt: skip
PUBLISHED = {"tekken": "tekken", "codestral": "", "deepseek": "deepseek-v3"}


def rewritten(folder: Path, content: dict[str, Any], pre: str) -> Tokenizer:
    """Return the tokenizer of a GGUF file with the tokens of a tokenizer.json."""
    writer = gguf.GGUFWriter(folder / "tokens.gguf", "llama")
    add_tokenizer(writer, content, pre=pre)
    writer.add_tensor("token_embd.weight", np.zeros((1, 32), np.float32))
    close(writer)
    files = tokenizer_files(read_header(folder / "tokens.gguf"))
    return Tokenizer(folder / "tokens.gguf" / "tokenizer.json", read=lambda path: files[path.name])


def original(folder: Path, content: dict[str, Any]) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    return Tokenizer(folder / "tokenizer.json")


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tokenizers_keep_their_ids(name: str, tmp_path: Path) -> None:
    content = REAL[name]()
    found, wanted = rewritten(tmp_path, content, PUBLISHED[name]), original(tmp_path, content)
    assert found.bos == wanted.bos and found.vocab == wanted.vocab
    for text in TEXTS:
        assert found.encode(text).tolist() == wanted.encode(text).tolist(), text


@pytest.mark.parametrize("kind", KINDS)
def test_each_way_to_cut_a_text_is_kept(kind: str, tmp_path: Path) -> None:
    content = json.loads(tiny_tokenizers.text_of(kind, tiny_tokenizers.FAMILY[kind]))
    assert CUTS[KINDS[kind]].steps() == content["pre_tokenizer"]
    found, wanted = rewritten(tmp_path, content, KINDS[kind]), original(tmp_path, content)
    assert found.bos == wanted.bos and found.token_bytes == wanted.token_bytes
    for text in TEXTS:
        assert found.encode(text).tolist() == wanted.encode(text).tolist(), text


def test_ways_to_cut_differ() -> None:
    """Or the test above would not tell them apart."""
    assert len({json.dumps(CUTS[pre].steps()) for pre in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("sign", [" ", "▁"])
def test_runs_of_blanks_are_found_before_words(sign: str, tmp_path: Path) -> None:
    """Gemma's are tokens that texts are searched for; older files spell them with SentencePiece's sign."""
    folder = make(tmp_path / "gemma", Tiny("gemma", vocabulary=tiny_tokenizers.VOCABULARY + 100))
    content = json.loads(tiny_tokenizers.text_of("gemma", "codegemma"))
    content["model"]["vocab"] = {name.replace("▁▁▁", "\0"): i for name, i in content["model"]["vocab"].items()}
    content["model"]["vocab"] = {name: i for name, i in content["model"]["vocab"].items() if "\0" not in name}
    content["model"]["merges"] = [pair for pair in content["model"]["merges"] if "▁▁" not in "".join(pair)]
    size = max([*content["model"]["vocab"].values(), *(each["id"] for each in content["added_tokens"])]) + 1
    content["added_tokens"].append({"id": size, "content": sign * 3, "special": False})
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    found = read_checkpoint(write(tmp_path / "gemma.gguf", folder)).tokenizer
    ids = found.encode("def f():\n   return").tolist()
    assert size in ids and b"".join(found.token_bytes[i] for i in ids) == b"def f():\n   return"


def changed(folder: Path, old: str, new: str) -> Path:
    """Change a text of a model's tokenizer.json; returns the folder."""
    path = folder / "tokenizer.json"
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    return folder


@pytest.mark.parametrize("keys", [("fim_pre", "fim_suf", "fim_mid"), ("prefix", "suffix", "middle")])
def test_markers_of_any_name_are_those_that_the_metadata_name(keys: tuple[str, str, str], tmp_path: Path) -> None:
    folder = changed(make(tmp_path / "tiny"), "<|fim_", "<|my_")
    with pytest.raises(
        ModelError, match=r"no fill-in-the-middle tokens: .* name its markers in the setting template"
    ):
        read_checkpoint(write(tmp_path / "without.gguf", folder))
    ids: dict[str, Any] = {f"tokenizer__ggml__{key}_token_id": 1 + i for i, key in enumerate(keys)}
    checkpoint = read_checkpoint(write(tmp_path / "with.gguf", folder, **ids))
    template, names = checkpoint.template, checkpoint.tokenizer.special
    assert template.family == "own" and not template.tail_first
    wanted = [(names[f"<|my_{name}|>"],) for name in ("prefix", "suffix", "middle")]
    assert [template.prefix, template.suffix, template.middle] == wanted == [(1,), (2,), (3,)]
    asked = read_checkpoint(tmp_path / "with.gguf", [("prefix", "<|my_middle|>"), ("order", "spm")]).template
    assert asked.prefix == (3,) and asked.tail_first


def test_a_family_known_by_its_names_is_itself_whatever_the_metadata_name(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny"), tokenizer__ggml__fim_pre_token_id=3)
    assert read_checkpoint(path).template == read_checkpoint(tmp_path / "tiny").template


@pytest.mark.parametrize(
    "path",
    ["Mellum-4b-base.Q8_0.gguf", "models--JetBrains--Mellum-4b-base-gguf/snapshots/abc/model.gguf"],
)
def test_a_family_that_shares_its_markers_is_known_by_its_files_name(path: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "tiny")
    for part in ("prefix", "suffix", "middle"):
        changed(folder, f"<|fim_{part}|>", f"<fim_{part}>")
    assert read_checkpoint(write(tmp_path / "other.gguf", folder)).template.family == "starcoder"
    template = read_checkpoint(write(tmp_path / path, folder)).template
    assert template.family == "mellum" and template.tail_first


def test_a_text_ends_at_all_tokens_that_end_one(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny"), tokenizer__ggml__eot_token_id=4)
    assert read_checkpoint(path).config.end_ids == (0, 4)


def test_no_text_becomes_a_token_that_stands_for_none(tmp_path: Path) -> None:
    """Whatever type the file gives it."""
    folder = make(tmp_path / "tiny", Tiny(vocabulary=420))
    usual = read_checkpoint(folder).tokenizer.encode(CODE).tolist()
    ending = max(usual, key=usual.count)
    path = write(tmp_path / "tiny.gguf", folder, tokenizer__ggml__eot_token_id=ending)
    tokenizer = read_checkpoint(path).tokenizer
    assert tokenizer.token_bytes[ending] == b"" and ending in tokenizer.special.values()
    assert tokenizer.vocab == 420 and tokenizer.special["[PAD419]"] == 419
    ids = tokenizer.encode("<|fim_prefix|>[PAD419]<|endoftext|>").tolist()
    assert not {0, 1, 419}.intersection(ids)
    assert b"".join(tokenizer.token_bytes[i] for i in ids) == b"<|fim_prefix|>[PAD419]<|endoftext|>"


@pytest.mark.parametrize("pre, has_bos", [("llama-bpe", True), ("qwen2", False)])
def test_where_a_file_does_not_say_whether_texts_begin_with_a_bos_its_kind_does(
    pre: str, has_bos: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny"), pre=pre, tokenizer__ggml__bos_token_id=4)
    assert read_checkpoint(path).tokenizer.bos == ()
    path.write_bytes(path.read_bytes().replace(b"add_bos_token", b"add_bos_other"))
    assert read_checkpoint(path).tokenizer.bos == ((4,) if has_bos else ())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no cut": (
        {"pre": "default"},
        r"does not say how its tokenizer cuts a text .*: use a file that a newer llama.cpp",
    ),
    "unknown cut": ({"pre": "kimi-k2"}, r"cuts a text as 'kimi-k2' does, which is not known: use a file that"),
    "end": ({"tokenizer__ggml__eot_token_id": 400}, r"eot_token_id is 400, and there are 400 tokens: fetch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tokenizer_that_is_not_known_is_refused(case: str, tmp_path: Path) -> None:
    values, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        read_checkpoint(write(tmp_path / "tiny.gguf", make(tmp_path / "tiny"), **values))


def test_a_tokenizer_of_another_size_than_the_embedding_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "tiny")
    content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    content["added_tokens"].append({"id": 400, "content": "more", "special": False})
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(
        ModelError,
        match=r"tokenizer of .*tiny\.gguf is another model's \(the tokenizer has 401 tokens, the model 400\)",
    ):
        read_checkpoint(write(tmp_path / "tiny.gguf", folder))
