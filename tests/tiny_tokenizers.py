"""Tiny tokenizers of every kind that code models use, trained on a little code, in the layout of published ones."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Raw

from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import CODE

VOCABULARY = 620
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT_OSS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
FIM = {
    "qwen": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    "starcoder": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    "deepseek": ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    "codellama": ("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"),
    "codestral": ("[PREFIX]", "[SUFFIX]"),
    "codegemma": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>"),
    "qwen, files": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"),
    "starcoder2": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"),
    "seed-coder": ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
    "glm": ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
}
# Blanks in runs, line ends of all kinds, characters of several bytes, in training as in real files.
TEXTS = [CODE, CODE.replace("    ", "\t"), "naïve = 'größe'\n\n\n" * 9, CODE.replace("\n", "\r\n")]


def _split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _bytes(regex: bool = False) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


BYTE_LEVEL = {
    "qwen": lambda: [_split(QWEN), _bytes()],
    "llama3": lambda: [_split(LLAMA3), _bytes()],
    "starcoder": lambda: [pre_tokenizers.Digits(individual_digits=True), _bytes(regex=True)],
    "deepseek": lambda: [
        *map(_split, (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")),
        pre_tokenizers.Digits(individual_digits=True),
        _bytes(),
    ],
    "stable-code": lambda: [_bytes(regex=True)],
    "gpt-oss": lambda: [_split(GPT_OSS), _bytes()],
}
SENTENCE_PIECE = ("llama", "metaspace", "gemma")
KINDS = (*BYTE_LEVEL, *SENTENCE_PIECE)
# What tells published tokenizers of each kind: the family of their markers, and a BOS where they put one.
FAMILY = {
    "qwen": "qwen",
    "llama3": "seed-coder",
    "starcoder": "starcoder",
    "deepseek": "deepseek",
    "stable-code": "starcoder",
    "gpt-oss": "codestral",
    "llama": "codellama",
    "metaspace": "codestral",
    "gemma": "codegemma",
}
BOS = {"llama3": "<|begin_of_text|>", "llama": "<s>", "metaspace": "<s>", "gemma": "<bos>"}


def write(folder: Path, kind: str, family: str | None = None) -> Path:
    """Write a tokenizer.json of a kind, with the markers of a family, into a folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(text_of(kind, family or FAMILY[kind]), encoding="utf-8")
    return path


@lru_cache(None)
def tokenizer(kind: str) -> Tokenizer:
    """Our own tokenizer of a kind."""
    with TemporaryDirectory() as folder:
        return Tokenizer(write(Path(folder), kind))


@lru_cache(None)
def text_of(kind: str, family: str) -> str:
    """The file's content; markers are marked special in every other family only, as in published ones."""
    names = [*([BOS[kind]] if kind in BOS else []), "<|endoftext|>", *FIM.get(family, ())]
    raw = _byte_level(kind) if kind in BYTE_LEVEL else _sentence_piece(kind)
    raw.add_special_tokens([AddedToken(name, normalized=False) for name in names[: 1 + (kind in BOS)]])
    raw.add_tokens([AddedToken(name, special=family != "deepseek", normalized=False) for name in names])
    if kind == "deepseek":
        raw.add_tokens([AddedToken("ü"), AddedToken("À")])  # letters whose stand-ins the vocabulary lacks
    if kind == "stable-code":
        raw.add_tokens([AddedToken(" " * size, normalized=True) for size in range(24, 1, -1)])
    if kind in BOS:
        bos = (BOS[kind], raw.token_to_id(BOS[kind]))
        raw.post_processor = processors.TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    return raw.to_str()


def _byte_level(kind: str) -> Raw:
    raw = Raw(models.BPE())
    if kind == "qwen":
        raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.Sequence(BYTE_LEVEL[kind]())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    return raw


def _sentence_piece(kind: str) -> Raw:
    """Bytes first, then characters and merges of words; indentation in tokens of 2, 4 and 8 spaces."""
    vocab = {name: i for i, name in enumerate(("<unk>", *(f"<0x{byte:02X}>" for byte in range(256))))}
    words, merges = _trained()
    runs = [("▁" * n, "▁" * n) for n in (1, 2, 4)] + ([("\n", "\n")] if kind == "gemma" else [])
    for token in (*words, *(["\n"] if kind == "gemma" else []), *(a + b for a, b in runs)):
        vocab.setdefault(token, len(vocab))
    raw = Raw(models.BPE(vocab, [*runs, *merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    if kind == "metaspace":
        raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    elif kind == "gemma":
        raw.normalizer, raw.pre_tokenizer = spaces, pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
    return raw


@lru_cache(1)
def _trained() -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Characters and merges inside words, each with the space before it."""
    raw = Raw(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    words = [" " + word for text in TEXTS for word in text.split()]
    raw.train_from_iterator(words, trainers.BpeTrainer(vocab_size=VOCABULARY - 300, show_progress=False))
    model = json.loads(raw.to_str())["model"]
    return tuple(model["vocab"]), [(a, b) for a, b in model["merges"]]
