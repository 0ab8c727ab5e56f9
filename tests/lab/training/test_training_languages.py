"""Samples of a corpus in several languages say which one each is in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from efim_lab.gate.documents import CodeDocument, write_documents
from efim_lab.workshop.training.samples import bpe, stream
from efim_lab.workshop.training.samples.sample_maker import Shares
from model_runtime.prompt.template import LANGUAGE_MARKER
from model_runtime.prompt.tokenizer import Tokenizer

WHOLE = Shares(plain=0, fim=0.5, fragments=0, efim=0, served=0.5)
TEXTS = {
    "rust": ("gauge-1/src/lib.rs", "fn add(first: u8, second: u8) -> u8 {\n    first + second\n}\n" * 40),
    "cpp": ("orchard-1/tree.cpp", "int add(int first, int second) {\n    return first + second;\n}\n" * 40),
    "c": ("apiary-1/hive.h", "int hive_add(int first, int second);\n" * 60),
}


def test_each_prompt_begins_with_the_marker_of_its_files_language(tmp_path: Path) -> None:
    corpus = tmp_path / "train.jsonl"
    write_documents(corpus, [CodeDocument(path, text) for path, text in TEXTS.values()])
    learnt = [text for _, text in TEXTS.values()]
    bpe.save(bpe.train(learnt, 420, ["rust", "cpp"]), tmp_path)
    tokenizer = Tokenizer(tmp_path / "tokenizer.json")
    marked = {tokenizer.special[LANGUAGE_MARKER.format(each)]: each for each in ("rust", "cpp")}
    source = stream.ShardSource(corpus, tmp_path, shares=WHOLE)
    found = set[str]()
    for row in stream.make_shard(source, 0, 512):
        for begin in np.flatnonzero(row == bpe.ID[bpe.PREFIX]).tolist():
            said, end = row[begin + 1], begin + 1 + int(np.argmax(row[begin + 1 :] == bpe.ID[bpe.PREFIX]))
            text = tokenizer.decode(row[begin : end if end > begin + 1 else None])
            language = "c" if "hive" in text else "cpp" if "int" in text else "rust" if "u8" in text else ""
            if language:
                assert marked.get(int(said), "c") == language, text
                found.add(language)
    assert found == set(TEXTS)


def test_the_markers_are_special_tokens_in_what_other_tools_read(tmp_path: Path) -> None:
    bpe.save(bpe.train(["a = 1\n"], 300, ["rust", "cpp"]), tmp_path)
    assert Tokenizer(tmp_path / "tokenizer.json").special.keys() >= {"<|language:rust|>", "<|language:cpp|>"}
    assert '"<|language:rust|>"' in (tmp_path / "tokenizer_config.json").read_text("utf-8")
