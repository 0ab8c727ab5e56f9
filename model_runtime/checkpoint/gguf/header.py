"""Reads the header of a GGUF file: its values, and where its tensors lie. Each size is checked before it is believed.

As github.com/ggml-org/ggml/blob/master/docs/gguf.md has it: a magic, the version, how many tensors and values there
are; of each value its key, its type and its content; of each tensor its name, its shape, its type and its place. The
tensors' contents follow, aligned.
"""

from __future__ import annotations

import errno
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from struct import Struct, error
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.gguf.kinds import KINDS, kind_name
from model_runtime.errors import ModelError
from model_runtime.regular_files import MIB, check_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_HEADER = 64 * MIB  # bytes: 260,000 tokens with their merges take 12 MiB
MOST_DIMENSIONS, MOST_NAMES = 4, 1 << 16
ALIGNMENTS = [1 << power for power in range(3, 17)]
AGAIN = "fetch the model again"
PICTURES = "mmproj"  # in the names of files that hold the part of a model that reads pictures
PART = re.compile(r"(.*)-(\d{5})-of-((?!00000)\d{5})\.gguf")

SHORT, TEXT, LIST = 6, 8, 9  # fp32 is short
NUMBERS = dict(enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {10: "<u8", 11: "<i8", 12: "<f8"}
WHOLE, LONG = Struct("<I"), Struct("<Q")


class Damaged(Exception):
    """A header that is not sound; the message is a clause that says why."""


class ListPlace(NamedTuple):
    """A list of `size` values of one type, and where it lies in its file."""

    kind: int
    size: int
    start: int
    end: int


class TensorPlace(NamedTuple):
    """A tensor's shape, the number of its type, and its bytes in its file."""

    shape: tuple[int, ...]
    kind: int
    content: npt.NDArray[np.uint8]


class GgufHeader:
    """The values of a GGUF file and its tensors by name; of a model in several files, the tensors of all."""

    def __init__(
        self, path: Path, values: Mapping[str, Any], tensors: dict[str, TensorPlace], content: memoryview
    ) -> None:
        self.path, self.values, self.tensors, self._content = path, values, tensors, content

    def whole(self, key: str, default: int | None = None) -> int:
        """Read a whole number from 0 on; a list whose numbers are all the same counts as one of them."""
        value: object = self.values.get(key, default)
        if isinstance(value, ListPlace):
            numbers = np.unique(self.numbers(key))
            value = numbers.item() if len(numbers) == 1 else f"a list of {len(numbers)} different numbers"
        if type(value) is not int or value < 0:
            raise self.unfit(key, value, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Read a number."""
        value = self.values.get(key, default)
        if type(value) not in (int, float):
            raise self.unfit(key, value, "a number")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Read a text."""
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.unfit(key, value, "a text")
        return value

    def numbers(self, key: str) -> npt.NDArray[Any]:
        """Read a list of numbers."""
        place = self.values.get(key)
        if not isinstance(place, ListPlace) or place.kind == TEXT:
            raise self.unfit(key, place, "a list of numbers")
        return np.frombuffer(self._content[place.start : place.end], NUMBERS[place.kind])

    def texts(self, key: str) -> list[str]:
        """Read a list of texts."""
        content, texts, at = self._raw_texts(key), list[str](), 0
        try:
            while at < len(content):
                start = at + 8
                at = start + LONG.unpack_from(content, at)[0]
                texts.append(content[start:at].decode())
        except UnicodeDecodeError as failure:
            raise self.unfit(key, failure, "UTF-8") from None
        return texts

    def count_texts(self, key: str) -> int:
        """Return how many texts a list has."""
        self._raw_texts(key)
        return self.values[key].size

    def held_texts(self, key: str, texts: Iterable[str]) -> set[str]:
        """Return which of some texts a list has, quicker than it is read."""
        content = self._raw_texts(key)
        encoded = {text: text.encode() for text in texts}
        return {text for text, each in encoded.items() if LONG.pack(len(each)) + each in content}

    def _raw_texts(self, key: str) -> bytes:
        place = self.values.get(key)
        if not isinstance(place, ListPlace) or place.kind != TEXT:
            raise self.unfit(key, place, "a list of texts")
        return self._content[place.start : place.end].tobytes()

    def unfit(self, key: str, value: object, wanted: str) -> ModelError:
        """Return an error for a value that is missing or of another kind."""
        if value is None:
            return ModelError(f"{self.path} lacks {key}: {AGAIN}")
        shown = "a list" if isinstance(value, ListPlace) else repr(value)[:100]
        return ModelError(f"{self.path}: {key} is {shown}, not {wanted}: {AGAIN}")

    @property
    def quantization(self) -> str:
        """The name of the type that most numbers of its matrices have, empty if it has none."""
        sizes = dict[int, int]()
        for place in self.tensors.values():
            if len(place.shape) > 1:
                sizes[place.kind] = sizes.get(place.kind, 0) + prod(place.shape)
        return kind_name(max(sizes, key=sizes.__getitem__)) if sizes else ""


def part_paths(path: Path) -> list[Path]:
    """Return the files of a model, whatever part of it a path names: one, or as many as their names say."""
    if (found := PART.fullmatch(path.name)) is None:
        return [path]
    name, _, count = found.groups()
    return [path.with_name(f"{name}-{part:05}-of-{count}.gguf") for part in range(1, int(count) + 1)]


def read_header(path: Path) -> GgufHeader:
    """Read a file's header, and the headers of its further parts; ModelError if one is missing or damaged."""
    first, *others = part_paths(path)
    header = _read(first)
    count = header.whole("split.count", 1)
    if count > 1 and count != 1 + len(others):
        named = f"its parts are not named -00001-of-{count:05}.gguf and so on"
        raise ModelError(f"{first} is the first of {count} parts, but {named}: rename them as they were published")
    for other in others:
        for name, place in _read(other).tensors.items():
            if name in header.tensors:
                raise ModelError(f"{other} holds {name}, as an earlier part does: {AGAIN}")
            header.tensors[name] = place
    return header


def _read(path: Path) -> GgufHeader:
    try:
        check_regular(path)
        with path.open("rb") as file:  # private pages: torch warns of tensors that it must not write
            _check_version(path, file.read(8))
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except FileNotFoundError:
        is_part = "put all parts of the model into one folder" if PART.fullmatch(path.name) else AGAIN
        raise ModelError(f"{path} is missing: {is_part}") from None
    except OSError as failure:
        if failure.errno == errno.ENOMEM:
            raise MemoryError(str(failure)) from failure  # the file is whole, and cannot be mapped
        raise ModelError(f"{path} cannot be read ({failure}): {AGAIN}") from None
    try:
        reader = _Reader(content[:MOST_HEADER])
        values = dict(reader.values(reader.counts[1]))
        return GgufHeader(path, values, dict(reader.tensors(values, content)), content)
    except (Damaged, error, OverflowError) as failure:
        cause = failure if isinstance(failure, Damaged) else "it ends, or is longer than any, in its header"
        raise ModelError(f"{path} is damaged ({cause}): {AGAIN}") from None


def _check_version(path: Path, begin: bytes) -> None:
    if begin[:4] != MAGIC or len(begin) < 8:
        raise ModelError(f"{path} is not a GGUF file: name a folder that holds a model, or a GGUF file")
    if (version := WHOLE.unpack(begin[4:])[0]) in VERSIONS:
        return
    if int.from_bytes(begin[4:], "big") in VERSIONS:
        raise ModelError(f"{path} was written for big-endian processors: fetch the little-endian file of the model")
    what = "too old" if version == 1 else "not known"
    raise ModelError(f"{path} is GGUF of version {version}, which is {what}: convert it again with llama.cpp")


class _Reader:
    """Reads one thing after the other; raises Damaged, struct's error or OverflowError for a header that is not."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._at = content, 8
        self.counts = self._number(LONG), self._number(LONG)
        if max(self.counts) > MOST_NAMES:
            raise Damaged("it has more tensors or values than any model")

    def values(self, count: int) -> Iterator[tuple[str, object]]:
        """Yield the values by their keys, lists by their places."""
        seen = set[str]()
        for _ in range(count):
            key, kind = self._text(), self._number(WHOLE)
            if key in seen:
                raise Damaged(f"it has {key[:100]} twice")
            seen.add(key)
            yield key, self._value(kind)

    def tensors(self, values: Mapping[str, object], content: memoryview) -> Iterator[tuple[str, TensorPlace]]:
        """Yield the tensors by their names; their content lies in the file, each beginning at a multiple."""
        alignment = values.get("general.alignment", 32)
        if type(alignment) is not int or alignment not in ALIGNMENTS:
            raise Damaged(f"its alignment is {alignment!r:.100}")
        found = dict[str, tuple[tuple[int, ...], int, int]]()
        for _ in range(self.counts[0]):
            name, dimensions = self._text(), self._number(WHOLE)
            if not 0 < dimensions <= MOST_DIMENSIONS or name in found:
                raise Damaged(f"{name[:100]} has {dimensions} dimensions, or is there twice")
            shape = tuple(self._number(LONG) for _ in range(dimensions))[::-1]
            found[name] = shape, self._number(WHOLE), self._number(LONG)
        data = np.frombuffer(content, np.uint8)
        begin = -(-self._at // alignment) * alignment
        for name, (shape, kind, offset) in found.items():
            yield name, TensorPlace(shape, kind, _bytes(name, shape, kind, data, begin + offset))

    def _value(self, kind: int) -> object:
        if kind == TEXT:
            return self._text()
        if kind == LIST:
            return self._list(self._number(WHOLE), self._number(LONG))
        if kind not in NUMBERS:
            raise Damaged(f"a value has the unknown type {kind}")
        size = np.dtype(NUMBERS[kind]).itemsize
        value = np.frombuffer(self._taken(size), NUMBERS[kind])[0]
        return float(str(value)) if kind == SHORT else value.item()  # 1e-05, as config.json has it

    def _list(self, kind: int, count: int) -> ListPlace:
        start = self._at
        if kind in NUMBERS:
            self._taken(count * np.dtype(NUMBERS[kind]).itemsize)
        elif kind == TEXT:
            content, at, size = self._content, self._at, LONG.unpack_from
            for _ in range(count):
                at += 8 + size(content, at)[0]
            self._at = at
            self._taken(0)
        else:
            raise Damaged(f"a list has values of the unknown type {kind}")
        return ListPlace(kind, count, start, self._at)

    def _text(self) -> str:
        return str(self._taken(self._number(LONG)), "utf-8", "replace")

    def _number(self, form: Struct) -> int:
        return form.unpack(self._taken(form.size))[0]

    def _taken(self, size: int) -> memoryview:
        start, self._at = self._at, self._at + size
        if self._at > len(self._content):
            raise Damaged("it ends, or is longer than any, in its header")
        return self._content[start : self._at]


def _bytes(
    name: str, shape: tuple[int, ...], kind: int, content: npt.NDArray[np.uint8], start: int
) -> npt.NDArray[np.uint8]:
    """Return the bytes of a tensor, none of a type that is not read."""
    if kind not in KINDS:
        return content[:0]
    _, numbers, size, _ = KINDS[kind]
    if shape[-1] % numbers:
        raise Damaged(f"a row of {name[:100]} is no whole number of blocks")
    end = start + prod(shape) // numbers * size
    if end > len(content):
        raise Damaged(f"it ends before {name[:100]} does")
    return content[start:end]
