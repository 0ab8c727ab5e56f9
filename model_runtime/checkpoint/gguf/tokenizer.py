"""Makes the files that the tokenizer of a GGUF file would have: tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from model_runtime.checkpoint.gguf.config import END_TOKENS
from model_runtime.checkpoint.gguf.cuts import Cuts, cuts_of
from model_runtime.checkpoint.gguf.header import AGAIN, GgufHeader
from model_runtime.errors import ModelError

JsonObject = dict[str, Any]

AT = "tokenizer.ggml."
TOKENS = AT + "tokens"
NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # types of tokens; all others stand for no text
# The metadata's keys of infilling markers, today's and older ones, by the setting template's names.
MARKERS = {
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
}
OTHER_MARKERS = ("bos_token_id", *END_TOKENS, "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id")
ADDED = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


class Tokens(NamedTuple):
    """The tokens of a file, and their types, by their ids; and the names of those that stand for no text."""

    names: list[str]
    types: list[int]
    special: set[str]

    @property
    def added(self) -> Iterator[JsonObject]:
        """The tokens that are found in a text before it is cut, and those that are never found in it."""
        for i, (name, type) in enumerate(zip(self.names, self.types, strict=True)):
            if name in self.special or type == USER_DEFINED:
                yield {"id": i, "content": name, "special": name in self.special, **ADDED}


def tokenizer_files(header: GgufHeader) -> Mapping[str, bytes]:
    """Return the contents of the files by their names; ModelError if the tokenizer is not read from GGUF."""
    cuts = read_cuts(header)
    tokens = _read_tokens(header, is_piece=cuts is None)
    vocab = {name: i for i, name in enumerate(tokens.names)}
    if cuts is not None:
        merges = header.texts(AT + "merges")  # both tokens with a space between, which no such token has
        rest, has_bos = {"pre_tokenizer": cuts.steps(), "ignore_merges": cuts.whole_words}, cuts.bos
    else:
        merges, rest, has_bos = _merges(header, tokens), {"byte_fallback": True}, True
    pre = rest.pop("pre_tokenizer", None)
    model = {"type": "BPE", "vocab": vocab, "merges": merges, **rest}
    content = {"added_tokens": [*tokens.added], "pre_tokenizer": pre, "model": model}
    files = {"tokenizer.json": content, "tokenizer_config.json": _bos(header, tokens.names, has_bos)}
    return {name: json.dumps(each).encode() for name, each in files.items()}


def read_cuts(header: GgufHeader) -> Cuts | None:
    """Return how a byte-level tokenizer cuts texts, None for SentencePiece's; ModelError for other tokenizers."""
    if (kind := header.text(AT + "model")) not in ("gpt2", "llama"):
        how = "use the model that it was made of, in safetensors"
        raise ModelError(f"{header.path} has a tokenizer of the kind {kind!r}, which is not read from GGUF: {how}")
    return cuts_of(header.path, header.text(AT + "pre", "default")) if kind == "gpt2" else None


def marker_names(header: GgufHeader) -> dict[str, str]:
    """Return the names of the infilling markers that the metadata name, by the setting template's names."""
    return {key: name for key, name in _named(header, header.texts(TOKENS)).items() if key in MARKERS}


def _read_tokens(header: GgufHeader, is_piece: bool) -> Tokens:
    names = header.texts(TOKENS)
    types = [NORMAL] * len(names)
    if AT + "token_type" in header.values:
        types = header.numbers(AT + "token_type").tolist()
    if len(types) != len(names):
        raise ModelError(f"{header.path} has {len(names)} tokens and types of {len(types)}: {AGAIN}")
    special = {name for name, type in zip(names, types, strict=True) if type not in (NORMAL, USER_DEFINED, BYTE)}
    special |= {*_named(header, names).values()}
    if is_piece:  # older files have SentencePiece's sign for a space in tokens that texts are searched for
        names = [
            name.replace("▁", " ") if type == USER_DEFINED and name not in special else name
            for name, type in zip(names, types, strict=True)
        ]
    if len({*names}) < len(names):
        raise ModelError(f"{header.path} has two tokens of one name: {AGAIN}")
    return Tokens(names, types, special)


def _named(header: GgufHeader, tokens: list[str]) -> dict[str, str]:
    """Return the tokens that the metadata name, by the setting template's names or their keys."""
    keys = MARKERS | {key: (key,) for key in OTHER_MARKERS}
    found = {name: next((AT + key for key in each if AT + key in header.values), None) for name, each in keys.items()}
    return {name: _token(header, tokens, key) for name, key in found.items() if key}


def _token(header: GgufHeader, tokens: list[str], key: str) -> str:
    if (token := header.whole(key)) >= len(tokens):
        raise ModelError(f"{header.path}: {key} is {token}, and there are {len(tokens)} tokens: {AGAIN}")
    return tokens[token]


def _bos(header: GgufHeader, tokens: list[str], usual: bool) -> JsonObject:
    has_bos = bool(header.values.get(AT + "add_bos_token", usual))
    name = _token(header, tokens, AT + "bos_token_id") if has_bos else None
    return {"add_bos_token": has_bos, "bos_token": name}


def _merges(header: GgufHeader, tokens: Tokens) -> list[tuple[str, str]]:
    """Return the merges that the scores of SentencePiece stand for: the first makes the token with the highest score.

    Of merges with the same score the longer left part comes first, as in the tokenizer.json that transformers makes.
    """
    names, scores = tokens.names, header.numbers(AT + "scores").tolist()
    if len(scores) != len(names):
        raise ModelError(f"{header.path} has {len(names)} tokens and scores of {len(scores)}: {AGAIN}")
    known = {name for name, type in zip(names, tokens.types, strict=True) if type == NORMAL} - tokens.special
    splits = sorted(
        (-scores[i], -at, at - len(name), i)
        for i, name in enumerate(names)
        if name in known
        for at in range(1, len(name))
        if name[:at] in known and name[at:] in known
    )
    return [(names[i][:-at], names[i][-at:]) for _, at, _, i in splits]
