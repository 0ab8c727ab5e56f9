"""Tells what the tokens of a `tokenizer.json` spell in bytes, and makes it read every text unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from model_runtime.errors import ModelError

JsonObject = dict[str, Any]
SpellToken = Callable[[str], bytes]

SPACE_SIGN = "▁"  # how SentencePiece writes a space
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")  # and how a byte of a character that has no token
# Bytes that can be part of a name; bytes of characters beyond ASCII can.
WORD_BYTES = frozenset(
    byte for byte in map(bytes, zip(range(256))) if byte.isalnum() or byte == b"_" or byte >= b"\x80"
)
BRACKETED_NAME = re.compile(r"<.*>|\[.*\]", re.DOTALL)
# Gemma has single tokens for these tags. They are text: everything else in brackets is a marker.
TEXT_TAG = re.compile(r"</?(table|caption|thead|tbody|tfoot|t[rhd]|h[1-6]|blockquote|strong|em|[bius]|su[bp]|code)>")


def token_speller(content: JsonObject) -> SpellToken:
    """Return the function from a vocabulary entry to its bytes (KeyError if none); ModelError if unsupported."""
    model = cast(JsonObject, content.get("model") or {})
    kind = model.get("type") or ("BPE" if "merges" in model else "unknown")
    if kind != "BPE":
        raise ModelError(f"{kind} tokenizers are not supported: use a model with a BPE tokenizer")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise ModelError("BPE with marked word parts is not supported: use a model with byte-level BPE")
    if is_byte_level(content):
        return _byte_level
    if not (model.get("byte_fallback") and _spells_all_bytes(model["vocab"])):
        raise ModelError("this BPE can spell neither bytes nor every character: use a model with byte-level BPE")
    return _sentence_piece


def is_byte_level(content: JsonObject) -> bool:
    """Return whether the vocabulary is of bytes (GPT-2's kind), not of characters (SentencePiece's)."""
    return any(step["type"] == "ByteLevel" for step in _steps(content.get("pre_tokenizer")))


def without_rewriting(content: JsonObject) -> JsonObject:
    """Remove whatever changes a text or reads markers in it: each fragment is spelled exactly by its tokens."""
    for step in _steps(content.get("pre_tokenizer")):
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False
        if step["type"] == "Metaspace":
            step["prepend_scheme"] = "never"
    replaces = any(step["type"] == "Metaspace" for step in _steps(content.get("pre_tokenizer")))
    spaces = None if is_byte_level(content) or replaces else _REPLACE_SPACES
    for token in content.get("added_tokens") or ():
        token |= {"special": not _is_text(token), "lstrip": False, "rstrip": False}
    return content | {"normalizer": spaces, "model": content["model"] | {"dropout": None}}


def _is_text(token: JsonObject) -> bool:
    """Return whether an added token is text: runs of blanks, tags, letters that the vocabulary lacked.

    Markers are not text, even if the file says that they are not special: texts could spell them.
    """
    name = cast(str, token["content"])
    return not token["special"] and (not BRACKETED_NAME.fullmatch(name) or bool(TEXT_TAG.fullmatch(name)))


_REPLACE_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_SIGN}


def _steps(step: JsonObject | None) -> Iterator[JsonObject]:
    """Yield a pre-tokenizer and all of its parts."""
    if step:
        yield step
        for part in cast(list[JsonObject], step.get("pretokenizers") or []):
            yield from _steps(part)


def _spells_all_bytes(vocab: Mapping[str, int]) -> bool:
    return all(
        f"<0x{b:02X}>" in vocab or (b < 128 and (SPACE_SIGN if b == 32 else chr(b)) in vocab) for b in range(256)
    )


def _sentence_piece(token: str) -> bytes:
    byte = BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(byte[1]) if byte else token.replace(SPACE_SIGN, " ").encode()


def _byte_level(token: str) -> bytes:
    return bytes(map(_ALPHABET.__getitem__, token))


def _byte_alphabet() -> dict[str, int]:
    """Return the bytes by the printable characters that stand for them in vocabularies (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_ALPHABET = _byte_alphabet()
