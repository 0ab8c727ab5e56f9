"""The tokenizers that the texts of a workspace are counted with, one for each family of languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from model_runtime.prompt.tokenizer import MOST_BYTES, Tokenizer
from model_runtime.regular_files import read_regular

NARROW = 1 << 16  # token ids that two bytes can tell apart
KEY = b'":'  # ends a key of JSON: a tokenizer has no more entries than its file has keys


class LanguageTokenizers:
    """Each family's own tokenizer, which is read when a text of it is first met, or else the `default` one.

    On any thread. A folder without a sound tokenizer raises ModelError or OSError.
    """

    def __init__(self, default: Tokenizer, own: Callable[[], Mapping[str, Path]] | None = None) -> None:
        """Ask for the folders of those that are a family's `own` when they are first needed."""
        self.default, self._own_folders = default, own
        self._read: dict[Path, Tokenizer] = {}
        self._lock = Lock()  # guards the files read

    @property
    def is_one(self) -> bool:
        """Whether all languages have the default tokenizer."""
        return self._own_folders is None

    def of(self, family: str) -> Tokenizer:
        """Return the tokenizer of a family of languages."""
        if (folder := self._own.get(family)) is None:
            return self.default
        with self._lock:
            if folder not in self._read:
                self._read[folder] = Tokenizer(folder / "tokenizer.json")
            return self._read[folder]

    def has_own(self, family: str) -> bool:
        """Return whether a family has a separate tokenizer, so that it shares no ids."""
        return family in self._own

    @property
    def digest(self) -> bytes:
        """A hash (16 bytes) of all of them: ids of the same texts are the same only if this is."""
        return self._read_files[0]

    @property
    def is_narrow(self) -> bool:
        """Whether two bytes can tell all token ids apart."""
        return self._read_files[1] <= NARROW

    @cached_property
    def _read_files(self) -> tuple[bytes, int]:
        """Return the hash of all, and how many entries one may have; no tokenizer is made for that."""
        if not self._own:
            return self.default.digest, self.default.vocab
        mixed, most = blake2b(self.default.digest, digest_size=16), self.default.vocab
        for family, folder in sorted(self._own.items()):
            content = read_regular(folder / "tokenizer.json", MOST_BYTES)
            mixed.update(family.encode() + b"\0" + blake2b(content, digest_size=16).digest())
            most = max(most, content.count(KEY))
        return mixed.digest(), most

    @cached_property
    def _own(self) -> Mapping[str, Path]:
        return self._own_folders() if self._own_folders else {}
