"""A GGUF file that is damaged is refused in a sentence, whatever is wrong, and nothing outside of it is read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.checkpoint.weights import read_weights
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import inspect_gguf, read_checkpoint
from tests.engine.gguf_files import write
from tests.models import Family, Tiny, make

# What counts, lengths, offsets and types may be after an accident, or by malice.
NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    31,
    33,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 60,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
SMALL = Tiny(hidden=32, intermediate=32, head_dim=32, layers=1)
FAMILIES: tuple[Family, ...] = ("llama", "qwen3_moe", "gemma")


def used(path: Path) -> None:
    """Read all that loading reads of a model."""
    checkpoint = read_checkpoint(path)
    weights = read_weights(path, checkpoint.config)
    assert sum(weights[name].nbytes for name in weights) > 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    made = {name: make(folder / name, replace(SMALL, family=name)) for name in FAMILIES}
    return {name: write(folder / f"{name}.gguf", made[name], "Q8_0").read_bytes() for name in FAMILIES}


@pytest.fixture(scope="module")
def ends(whole: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return where the tensors begin in each file."""
    path, found = tmp_path_factory.mktemp("ends") / "model.gguf", dict[str, int]()
    for name, content in whole.items():
        path.write_bytes(content)
        sizes = [len(place.content) for place in read_header(path).tensors.values()]
        found[name] = len(content) - sum(-(-size // 32) * 32 for size in sizes)
    return found


PLACES = st.floats(0, 1, exclude_max=True)


@settings(max_examples=120)
@given(st.sampled_from(FAMILIES), PLACES, st.sampled_from(NUMBERS), st.sampled_from("BIQ"))
@example("llama", 8 / 4000, 1 << 60, "Q")
def test_a_number_that_is_wrong_anywhere_in_the_header(
    whole: dict[str, bytes], ends: dict[str, int], tmp_path_factory: pytest.TempPathFactory,
    family: str, place: float, number: int, form: str,
) -> None:  # fmt: skip
    content, written = bytearray(whole[family]), struct.pack(f"<{form}", number % (1 << 8 * struct.calcsize(form)))
    at = int(place * ends[family])
    content[at : at + len(written)] = written
    check(bytes(content), tmp_path_factory)


@settings(max_examples=100)
@given(st.sampled_from(FAMILIES), PLACES, st.integers(-40, 40))
def test_bytes_that_are_missing_or_too_many(
    whole: dict[str, bytes], ends: dict[str, int], tmp_path_factory: pytest.TempPathFactory,
    family: str, place: float, count: int,
) -> None:  # fmt: skip
    content, at = whole[family], int(place * ends[family])
    moved = content[:at] + content[at - count :] if count < 0 else content[:at] + b"\x07" * count + content[at:]
    check(moved, tmp_path_factory)


@settings(max_examples=60)
@given(st.sampled_from(FAMILIES), PLACES)
def test_a_file_that_was_cut(
    whole: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, family: str, place: float
) -> None:
    path = tmp_path_factory.mktemp("cut") / "model.gguf"
    path.write_bytes(whole[family][: int(place * (len(whole[family]) - 32))])
    with pytest.raises(ModelError):
        used(path)


def check(content: bytes, folders: pytest.TempPathFactory) -> None:
    """Find a model that can be used, or is refused in a sentence that ends with a remedy."""
    path = folders.mktemp("damaged") / "model.gguf"
    path.write_bytes(content)
    for use in (used, lambda path: inspect_gguf(read_header(path))):
        try:
            use(path)
        except ModelError as error:
            cause, _, remedy = str(error).rpartition(": ")
            assert cause and remedy and "\n" not in str(error), error


def version(content: bytes, number: int, order: str = "<") -> bytes:
    return content[:4] + struct.pack(f"{order}I", number) + content[8:]


def only_value(content: bytes, size: int) -> bytes:
    """Return a header with a single text, of which there are two bytes."""
    return content[:8] + struct.pack("<QQQ1sIQ", 0, 1, 1, b"a", 8, size) + b"xy"


def flat(content: bytes, name: bytes) -> bytes:
    """Take a tensor's dimensions away."""
    at = content.index(name) + len(name)
    return content[:at] + b"\0" * 4 + content[at + 4 :]


CASES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "is not a GGUF file"),
    "another kind": (lambda content: b"PK\3\4" + content[4:], "is not a GGUF file: name a folder that holds a model"),
    "big-endian": (lambda content: version(content, 3, ">"), "for big-endian processors: fetch the little-endian"),
    "version 1": (lambda content: version(content, 1), "version 1, which is too old: convert it again"),
    "version 4": (lambda content: version(content, 4), "version 4, which is not known: convert it again"),
    "a last text that is cut": (lambda content: only_value(content, 100), "is damaged"),
    "no dimensions": (lambda content: flat(content, b"token_embd.weight"), "token_embd.weight has 0 dimensions"),
    "no tensors": (lambda content: content[:8] + b"\0" * 8 + content[16:], "lacks token_embd.weight"),
    "values": (lambda content: content[:16] + b"\xff" * 8 + content[24:], "more tensors or values than any model"),
    "cut": (lambda content: content[:-64], r"is damaged \(it ends before .* does\): fetch the model again"),
    "cut early": (lambda content: content[:100], r"is damaged \(it ends, or is longer than any, in its header\)"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_message_says_what_is_wrong(whole: dict[str, bytes], case: str, tmp_path: Path) -> None:
    change, message = CASES[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(change(whole["llama"]))
    with pytest.raises(ModelError, match=message):
        used(path)


@pytest.mark.parametrize(
    "kind, scale",
    [("Q8_0", b"\x00\x7c"), ("Q4_1", b"\x00\x00\xff\xff"), ("F16", b"\xff\x7f"), ("F32", b"\0\0\xc0\x7f")],
)
def test_a_scale_that_is_no_number_is_found(kind: str, scale: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", make(tmp_path / "model", SMALL), kind)
    content, place = bytearray(path.read_bytes()), read_header(path).tensors["blk.0.ffn_up.weight"]
    at = content.find(place.content.tobytes())
    content[at : at + len(scale)] = scale
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"blk\.0\.ffn_up\.weight contains NaN or infinity: fetch the model again"):
        read_weights(path, read_config(path))


def test_a_model_in_parts_needs_all_of_them(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", Tiny(hidden=32, intermediate=32, head_dim=32))
    write(tmp_path / "parts" / "tiny.gguf", folder, parts=3)
    paths = sorted((tmp_path / "parts").iterdir())
    assert [path.name for path in paths] == [f"tiny-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    wanted = read_weights(folder, read_config(folder))
    for named in (*paths, tmp_path / "parts"):
        assert weight_files(named) == paths
        found = read_weights(named, read_checkpoint(named).config)
        assert all(np.array_equal(found[name], weight) for name, weight in wanted.items())
    moved = paths[0].rename(paths[0].with_name("coder.gguf"))
    with pytest.raises(ModelError, match=r"is the first of 3 parts, but .*: rename them as they were published"):
        used(moved)
    moved.rename(paths[0])
    paths[1].unlink()
    for named in (paths[0], paths[2], tmp_path / "parts"):
        with pytest.raises(ModelError, match=r"tiny-00002-of-00003.gguf is missing: put all parts .* one folder"):
            used(named)
