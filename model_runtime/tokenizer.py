"""Text to token ids and back, fragment by fragment, so that an edit tokenizes one line anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import tokenizers

from model_runtime.errors import ModelError
from model_runtime.ids import Ids

# A byte-level pre-tokenizer always cuts between a line end and a line that is not blank: tokens never span it.
LINE_CUT = re.compile(r"(?<=[\n\r])(?=[^\S\r\n]*\S)")
LONGEST_FRAGMENT = 256  # characters; longer lines are cut at multiples of it
CACHED_FRAGMENTS = 1 << 15


def fragments(text: str) -> Iterator[str]:
    """Cut before every non-blank line, and inside lines of more than 256 characters; the pieces join to the text."""
    for piece in LINE_CUT.split(text):
        for at in range(0, len(piece), LONGEST_FRAGMENT):
            yield piece[at : at + LONGEST_FRAGMENT]


class Tokenizer:
    """A byte-level BPE `tokenizer.json`. Markers in a text are text: they are never read as special tokens."""

    def __init__(self, path: Path) -> None:
        """Read the file; ModelError where it is missing, damaged or not byte-level."""
        try:
            self._bpe = tokenizers.Tokenizer.from_str(_marked(path.read_text(encoding="utf-8")))
        except Exception as error:  # the library raises bare Exception for whatever is wrong with the file
            raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
        self._bpe.encode_special_tokens = True
        self._bpe.no_truncation()
        self._bpe.no_padding()
        self.special = {t.content: i for i, t in self._bpe.get_added_tokens_decoder().items()}
        self.token_bytes = self._read_bytes(path)
        self._fragment = lru_cache(CACHED_FRAGMENTS)(self._encode_fragment)
        self.encode = lru_cache(64)(self._encode)

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return len(self.token_bytes)

    def last_piece(self, line: str) -> int:
        """Where the last piece that the pre-tokenizer cuts out of a line begins, in characters."""
        pieces = self._bpe.pre_tokenizer.pre_tokenize_str(_unicode(line))
        return pieces[-1][1][0] if pieces else 0

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """The fragments of a text, each with its number of tokens."""
        return [(fragment, len(self._fragment(fragment))) for fragment in fragments(text)]

    def decode(self, ids: Ids) -> str:
        """Text of the ids with special tokens by name; what is not UTF-8 is replaced."""
        names = {i: name.encode() for name, i in self.special.items()}
        return b"".join(names.get(i) or self.token_bytes[i] for i in map(int, ids)).decode("utf-8", "replace")

    def _encode(self, text: str) -> Ids:
        """Token ids of a text, each of its fragments tokenized apart (cached: heads and tails come again)."""
        parts = [self._fragment(fragment) for fragment in fragments(text)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def _encode_fragment(self, fragment: str) -> Ids:
        return np.array(self._bpe.encode(_unicode(fragment), add_special_tokens=False).ids, dtype=np.int32)

    def _read_bytes(self, path: Path) -> list[bytes]:
        alphabet = _byte_alphabet()
        size = self._bpe.get_vocab_size()
        table = [b""] * size
        special = set(self.special.values())
        for token, i in self._bpe.get_vocab().items():
            if i >= size:
                raise ModelError(f"{path} has gaps in its ids: fetch the model again")
            if i not in special:
                if not all(c in alphabet for c in token):
                    raise ModelError(f"{path} is not byte-level BPE: use a model with a byte-level tokenizer")
                table[i] = bytes(alphabet[c] for c in token)
        return table


def _marked(raw: str) -> str:
    """Make every added token special: some models add their markers as plain ones, which texts would spell."""
    content = json.loads(raw)
    for token in content.get("added_tokens", ()):
        token["special"] = True
    return json.dumps(content)


def _unicode(text: str) -> str:
    """Replace lone surrogates, which LSP's JSON may carry, one by one: they are not text to a tokenizer."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins of the 256 bytes in byte-level vocabularies (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
