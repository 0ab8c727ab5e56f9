"""Compact weights stand for the numbers that the compiled decoder quantizes the exported ones to, to the bit."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load_file, save_file

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES, expected_shapes
from model_runtime.checkpoint.tensors.compact import QuantizedRows
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.quantization import quantized
from model_runtime.errors import ModelError
from tests.models import Tiny
from tests.unit.checkpoint.compact_form import MATRIX, TABLE, computed_with, exported, write_compact

TINY = Tiny(family="efim")
COMPACT = {"format": "efim-ls compact 1"}
HALVES = st.floats(-65504, 65504, width=16) | st.sampled_from([0.0, -0.0, 2.0**-24, -(2.0**-24), 65504.0])
# Of each embedded model as it was exported, in fp16.
EXPORTED = {
    "python": "291c942e26ce88b8bed6cd3f3a6a286f7d24e53a62d4afd91aae01f8f48f02de",
    "typescript": "8597e45af68fa7c1de0799279feb71f8c06356554d7215cb917b57f8569407d8",
    "go": "4e4557e5cc0698c8c352c6c0bcdfaa253c85c7ccd31c298e1cdc78394b79b951",
    "more": "c0c62fa390a2d670ee76a58461edb8ca771643e2ef409f9e40bac40421a685e2",
}


@given(arrays(np.float16, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=HALVES))
def test_quantized_rows_are_quantized_to_themselves(matrix: npt.NDArray[np.float16]) -> None:
    digits, scales = quantized(matrix)
    widened = QuantizedRows(digits, np.abs(matrix).max(1).astype(np.float32)).widened()
    again, scales_again = quantized(widened)
    assert np.array_equal(again, digits) and scales_again.tobytes() == scales.tobytes()


def test_rows_of_each_magnitude_that_fp16_has_are_quantized_to_themselves() -> None:
    magnitudes = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    for every in (np.arange(-127, 127, 11), np.arange(127, -127, -11)):
        digits = np.tile(every.astype(np.int8), (len(magnitudes), 1))
        again, scales = quantized(QuantizedRows(digits, magnitudes).widened())
        assert np.array_equal(again, digits)
        assert np.array_equal(scales[:, 0], magnitudes / np.float32(127))


@pytest.mark.parametrize("name", EXPORTED)
def test_the_embedded_models_are_what_their_exported_weights_are_quantized_to(name: str) -> None:
    assert computed_with(EMBEDDED.with_name(name)) == EXPORTED[name]


@pytest.mark.parametrize("name", EXPORTED)
def test_nothing_is_read_of_a_compact_model_but_its_weights(name: str) -> None:
    config = read_config(folder := EMBEDDED.with_name(name))
    assert set(read_weights(folder, config)) == set(expected_shapes(config))


@pytest.fixture
def compact(tmp_path: Path) -> Path:
    return write_compact(exported(tmp_path / "exported", TINY), tmp_path / "compact")


def test_a_compact_model_computes_with_the_same_numbers_and_has_all_other_files(compact: Path) -> None:
    origin = compact.with_name("exported")
    assert computed_with(compact) == computed_with(origin)
    assert {path.name for path in compact.iterdir()} == {path.name for path in origin.iterdir()}
    assert (compact / "tokenizer.json").read_bytes() == (origin / "tokenizer.json").read_bytes()
    stored = load_file(compact / "model.safetensors")
    assert {f"{TABLE}.low", f"{TABLE}.high", f"{TOKEN_VALUES}.low", f"{MATRIX}.digits", f"{MATRIX}.largest"} <= {
        *stored
    }
    assert not {TABLE, TOKEN_VALUES, MATRIX} & {*stored}


def test_its_tables_stay_when_mapped_pages_are_released(compact: Path) -> None:
    weights = read_weights(compact, read_config(compact))
    before = {name: weight.copy() for name, weight in weights.items()}
    weights.release()
    assert all(np.array_equal(weights[name], weight) for name, weight in before.items())


Stored = dict[str, npt.NDArray[Any]]


def deflated(size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(zlib.compress(bytes(size)), np.uint8)


def cut(name: str) -> Callable[[Stored], None]:
    return lambda stored: stored.update({name: stored[name][:-8]})


def put(name: str, array: npt.NDArray[Any]) -> Callable[[Stored], None]:
    return lambda stored: stored.update({name: array})


DIGITS, ROWS = TINY.hidden * TINY.intermediate, TINY.hidden
DAMAGE: dict[str, tuple[Callable[[Stored], object], str]] = {
    "digits cut off": (cut(f"{MATRIX}.digits"), "does not inflate to"),
    "no deflated digits": (put(f"{MATRIX}.digits", np.zeros(50, np.uint8)), "cannot be inflated"),
    "digits of another format": (put(f"{MATRIX}.digits", np.zeros(50, np.int8)), "lack .*digits, a list of U8"),
    "too few digits": (put(f"{MATRIX}.digits", deflated(DIGITS - 1)), f"does not inflate to the {DIGITS} bytes"),
    "more behind the digits": (
        lambda stored: stored.update({f"{MATRIX}.digits": np.append(stored[f"{MATRIX}.digits"], np.uint8(0))}),
        "does not inflate to",
    ),
    "no largest": (lambda stored: stored.pop(f"{MATRIX}.largest"), "lack .*largest, a list of F16"),
    "too few rows": (cut(f"{MATRIX}.largest"), rf"has {ROWS - 8} rows, config.json asks for"),
    "infinite rows": (put(f"{MATRIX}.largest", np.full(ROWS, np.inf, np.float16)), "contains NaN or infinity"),
    "no high bytes": (lambda stored: stored.pop(f"{TABLE}.high"), "lack .*high, a list of U8"),
    "a short table": (put(f"{TABLE}.low", deflated(99)), "does not inflate to"),
    "an infinite table": (
        put(f"{TABLE}.high", np.frombuffer(zlib.compress(b"\x7c" * TINY.vocabulary * TINY.hidden), np.uint8)),
        "contains NaN or infinity",
    ),
    "no matrix": (
        lambda stored: [stored.pop(f"{MATRIX}{part}") for part in (".digits", ".largest")],
        f"lack {MATRIX}, which config.json asks for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told(compact: Path, damage: str) -> None:
    change, told = DAMAGE[damage]
    stored = load_file(compact / "model.safetensors")
    change(stored)
    save_file(stored, compact / "model.safetensors", COMPACT)
    with pytest.raises(ModelError, match=rf"{told}.*: fetch the model again"):
        read_weights(compact, read_config(compact))


def test_no_more_is_inflated_than_config_json_asks_for(compact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load_file(compact / "model.safetensors")
    stored[f"{MATRIX}.digits"] = deflated(1 << 24)
    save_file(stored, compact / "model.safetensors", COMPACT)
    made, inflate = list[int](), zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self._inner = inflate()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def decompress(self, content: bytes, *most: int) -> bytes:
            found = self._inner.decompress(content, *most)
            made.append(len(found))
            return found

    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with pytest.raises(ModelError, match="does not inflate to"):
        read_weights(compact, read_config(compact))
    assert made[-1] == DIGITS + 1


def test_another_version_is_told(compact: Path) -> None:
    path = compact / "model.safetensors"
    save_file(load_file(path), path, {"format": "efim-ls compact 2"})
    with pytest.raises(ModelError, match="version 2 of the compact form: install a newer efim-ls"):
        read_weights(compact, read_config(compact))
