"""Text to token ids and back, fragment by fragment, so that an edit re-tokenizes one line only."""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import cast

import numpy as np
import tokenizers

from model_runtime.errors import ModelError
from model_runtime.ids import Ids, common_prefix
from model_runtime.prompt.families import MARKER_NAMES
from model_runtime.prompt.pieces import LONGEST_FRAGMENT, Pieces, exact_cut, fragments, without_surrogates
from model_runtime.prompt.spelling import (
    SPACE_SIGN,
    WORD_BYTES,
    JsonObject,
    SpellToken,
    is_byte_level,
    token_speller,
    without_rewriting,
)
from model_runtime.regular_files import MIB, read_regular

MOST_BYTES = 128 * MIB  # of a tokenizer.json: one of 262,000 tokens takes 33 MiB
CACHED_FRAGMENTS = 1 << 15
# One batch at a time is encoded, on the thread that asks: the library would start a thread for each core otherwise.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
RUN = 4096  # characters of a file that are encoded at once, in about a millisecond


ReadFile = Callable[[Path], bytes]


def read_file(path: Path) -> bytes:
    """Return the content of a tokenizer's file; raises OSError."""
    return read_regular(path, MOST_BYTES)


class Vocabulary:
    """An index of tokens by the bytes they spell. Pure; tokens without bytes (special ones) are never found.

    `begins_word` [vocab] says which tokens begin with a byte of a name.
    """

    def __init__(self, token_bytes: list[bytes]) -> None:
        """Sort the tokens by their bytes."""
        order = sorted((spelled, i) for i, spelled in enumerate(token_bytes) if spelled)
        self._spelled = [spelled for spelled, _ in order]
        self._ids = np.array([i for _, i in order], dtype=np.int32)
        self.bytes = frozenset(spelled[0] for spelled in self._spelled if len(spelled) == 1)
        self.longest = max(map(len, self._spelled), default=0)
        self.begins_word = np.array([spelled[:1] in WORD_BYTES for spelled in token_bytes], dtype=np.bool_)
        self.fitting = lru_cache(256)(self._fitting)

    def extends(self, text: bytes) -> bool:
        """Return whether some token spells a text and more."""
        at = bisect_right(self._spelled, text)
        return at < len(self._spelled) and self._spelled[at].startswith(text)

    def _fitting(self, stub: bytes) -> Ids:
        """Return the tokens that begin with the stub or with which the stub begins; stub is not empty."""
        first = bisect_left(self._spelled, stub)
        last = bisect_left(self._spelled, stub + b"\xff" * self.longest, lo=first)
        return np.concatenate([self._ids[first:last], *(self._spelling(stub[:n]) for n in range(1, len(stub)))])

    def _spelling(self, text: bytes) -> Ids:
        """Return the tokens that spell exactly this: a byte of SentencePiece and its character are two tokens."""
        return self._ids[bisect_left(self._spelled, text) : bisect_right(self._spelled, text)]


class Tokenizer:
    """A BPE `tokenizer.json`, of bytes or SentencePiece's. Markers in a text are text: never read as special tokens.

    `special` are the ids of markers by name, `token_bytes` what each token spells (nothing for special ones), `bos`
    the ids with which every text must begin, `digest` a hash of the file (16 bytes). A tokenizer that
    `is_byte_level` may lack bytes of rare characters, which are in no prompt then.
    """

    def __init__(self, path: Path, most: int | None = None, read: ReadFile = read_file) -> None:
        """Read the file; ModelError if it is missing, damaged or of a kind that cannot spell every text.

        Of a model with `most` tokens markers beyond them are left out: they do not stand for text. `read` returns the
        content of a file in its folder.
        """
        content, spell, self._bpe, self.digest = _read(path, read)
        self.folder, self.is_byte_level, self._vocab = path.parent, is_byte_level(content), self._bpe.get_vocab()
        self._added = self._bpe.get_added_tokens_decoder()
        named = {name: self._vocab[name] for name in MARKER_NAMES if name in self._vocab}
        self.special = {t.content: i for i, t in self._added.items() if t.special} | named
        for name in [name for name, i in self.special.items() if most is not None and i >= most]:
            del self.special[name], self._vocab[name]
        self.token_bytes = self._read_bytes(path, spell)
        self.bos = self._read_bos(_config(path.parent, read))
        self._pieces = Pieces(self._bpe)
        self._cut = exact_cut(self._pieces, self.token_bytes)
        self._may_join = self.is_byte_level and self._pieces.are_cut_at(self._cut) and not self._pieces.cross_lines
        self._space = [self._vocab.get(f"<0x{byte:02X}>", 0) for byte in SPACE_SIGN.encode()]
        self._fragment = lru_cache(CACHED_FRAGMENTS)(self._encode_fragment)
        self.encode = lru_cache(64)(self._encode)

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return len(self.token_bytes)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Index of the tokens by their bytes."""
        return Vocabulary(self.token_bytes)

    def token(self, name: str) -> int | None:
        """Return the id of a marker or another entry by name, with or without SentencePiece's sign for a space."""
        return self._vocab.get(name, self._vocab.get(SPACE_SIGN + name))

    def spells(self, text: bytes) -> bool:
        """Return whether there are tokens for all bytes of a text, however it is cut."""
        return self.vocabulary.bytes.issuperset(text)

    def unfinished(self, text: str) -> int:
        """Return where the end of a text begins that may get other tokens if its last line goes on, in characters.

        Whatever follows, the tokens of what stands before it are the first ones of the whole.
        """
        *_, last = "", *fragments(text, self._cut)
        start = len(text) - len(last)
        if self.is_byte_level:
            return start + self._pieces.settled(last)
        return max(start + self._settled(last), text.rfind("\n") + 1, text.rfind("\r") + 1)

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """Return the fragments of a text, which are tokenized apart, each with its number of tokens."""
        return [(fragment, len(self._fragment(fragment))) for fragment in fragments(text, self._cut)]

    def decode(self, ids: Ids) -> str:
        """Return the text of the ids, with special tokens by name; invalid UTF-8 is replaced."""
        names = {i: name.encode() for name, i in self.special.items()}
        return b"".join(names.get(i) or self.token_bytes[i] for i in map(int, ids)).decode("utf-8", "replace")

    def encode_file(self, text: str) -> Ids:
        """Return the same ids as `encode`, in less time, for texts that do not recur: nothing is cached.

        The interpreter is free for other threads while each run of about 4,000 characters is encoded.
        """
        if not self.is_byte_level:
            parts = [self._encode_fragment(fragment) for fragment in fragments(text, self._cut)]
        else:
            runs = map(without_surrogates, self._runs(text))
            batches = (self._bpe.encode_batch_fast([run], add_special_tokens=False) for run in runs)
            parts = [np.array(each.ids, dtype=np.int32) for batch in batches for each in batch]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def _runs(self, text: str) -> Iterator[str]:
        """Yield the fragments of a text, joined where that changes no token."""
        waiting, size = list[str](), 0
        for piece in self._cut.split(text):
            whole = self._may_join and len(piece) <= LONGEST_FRAGMENT
            if waiting and (not whole or size > RUN):
                yield "".join(waiting)
                waiting, size = [], 0
            if whole:
                waiting.append(piece)
                size += len(piece)
            else:
                yield from (piece[at : at + LONGEST_FRAGMENT] for at in range(0, len(piece), LONGEST_FRAGMENT))
        yield from ("".join(waiting) for _ in waiting[:1])

    def _settled(self, fragment: str) -> int:
        """Return where the tokens end that a fragment has however it goes on, for a tokenizer without pieces.

        A token that crosses its end begins before a character of it; what stands before that has its own tokens.
        """
        ids = self._fragment(fragment)
        for at in range(max(0, len(fragment) - self.vocabulary.longest), len(fragment)):
            if self.vocabulary.extends(without_surrogates(fragment[at:]).encode()):
                ids = ids[: common_prefix(ids, self._fragment(fragment[:at]))]
        return len(b"".join(self.token_bytes[i] for i in map(int, ids)).decode())

    def _encode(self, text: str) -> Ids:
        """Return the token ids of a text, each fragment tokenized apart; cached, since heads and tails recur."""
        parts = [self._fragment(fragment) for fragment in fragments(text, self._cut)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def _encode_fragment(self, fragment: str) -> Ids:
        encode = self._encoded if self.is_byte_level else self._encode_space_signs
        return np.array(encode(without_surrogates(fragment)), dtype=np.int32)

    def _encode_space_signs(self, fragment: str) -> list[int]:
        """Encode a fragment with the bytes of any space sign in it, which would be read as a space."""
        first, *others = fragment.split(SPACE_SIGN)
        return self._encoded(first) + [i for part in others for i in (*self._space, *self._encoded(part))]

    def _encoded(self, text: str) -> list[int]:
        return self._bpe.encode(text, add_special_tokens=False).ids

    def _read_bytes(self, path: Path, spell: SpellToken) -> list[bytes]:
        size = max(self._vocab.values(), default=-1) + 1
        if size > 2 * len(self._vocab):
            raise ModelError(f"{path} has gaps in its ids: fetch the model again")
        table, special = [b""] * size, set(self.special.values())
        try:
            for token, i in self._vocab.items():
                if i not in special:
                    table[i] = token.encode() if self.is_byte_level and i in self._added else spell(token)
        except KeyError as error:
            raise ModelError(f"{path}: a token with {error} is not byte-level: fetch the model again") from None
        return table

    def _read_bos(self, config: JsonObject) -> tuple[int, ...]:
        """Return the BOS that tokenizer_config.json names, else what the tokenizer itself puts before a text."""
        if config.get("add_bos_token") is None:
            special, ids = set(self.special.values()), self._bpe.encode("a", add_special_tokens=True).ids
            return tuple(takewhile(special.__contains__, ids))
        given: object = config.get("bos_token")
        name = cast(JsonObject, given).get("content") if isinstance(given, dict) else given
        if not config["add_bos_token"] or name is None:
            return ()
        if (token := self.special.get(str(name))) is None:
            raise ModelError(f"{self.folder}: the tokenizer has no bos_token {name!r}: fetch the model again")
        return (token,)


def _read(path: Path, read: ReadFile) -> tuple[JsonObject, SpellToken, tokenizers.Tokenizer, bytes]:
    """Read the file's content, how its tokens spell bytes, the tokenizer that reads texts unchanged, and a digest."""
    try:
        raw = read(path)
        content = cast(JsonObject, json.loads(raw.decode("utf-8")))
        spell = token_speller(content)
        bpe = tokenizers.Tokenizer.from_str(json.dumps(without_rewriting(content)))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except Exception as error:  # the library raises bare Exception for whatever is wrong with the file
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    bpe.encode_special_tokens = True
    bpe.no_truncation()
    bpe.no_padding()
    return content, spell, bpe, blake2b(raw, digest_size=16).digest()


def _config(folder: Path, read: ReadFile) -> JsonObject:
    """Read the `tokenizer_config.json` of a tokenizer's folder, or nothing if there is none."""
    path = folder / "tokenizer_config.json"
    try:
        return cast(JsonObject, dict(json.loads(read(path).decode("utf-8"))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
