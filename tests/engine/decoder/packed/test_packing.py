"""Weights as the compiled part packs them: the numbers of numpy's rounding, each in its place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.native.packing import INPUTS, OUTPUTS, PackedMatrix, pack
from model_runtime.decoder.quantization import FP16_MAX, GROUP, ROWS_AT_ONCE, Format, quantized
from model_runtime.decoder.weights.product import Product
from model_runtime.errors import ModelError
from tests.compiled import require_compiled
from tests.engine.decoder.packed.grouping import grouped

Whole = npt.NDArray[np.int8]
FORMS: dict[int, Format] = {4: "int4", 8: "int8_groups"}
EACH_FORM = pytest.mark.parametrize(("bits", "form"), FORMS.items())
KINDS = ("normal", "rounded before", "half of them", "small", "zeros", "large")


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    require_compiled()


def packed(weight: Fp32, form: Format) -> PackedMatrix:
    return pack(Product(weight, None), form, np.zeros)


def in_order(stored: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """Put what lies in turns of `size` in a strip of outputs into one row for each output."""
    strips = stored.reshape(len(stored) // OUTPUTS, -1, OUTPUTS, size)
    return np.ascontiguousarray(strips.transpose(0, 2, 1, 3)).reshape(stored.shape)


def unpacked(matrix: PackedMatrix, bits: int) -> tuple[Whole, npt.NDArray[np.float16]]:
    """Return the whole numbers [outputs, inputs] and the scales of groups."""
    stored = in_order(matrix.weights, 4).view(np.uint8)
    if bits == 4:
        fours = stored.reshape(len(stored), -1, 1, 4)
        stored = (np.concatenate((fours & 15, fours >> 4), 2).view(np.int8) - 8).reshape(len(stored), -1)
    assert matrix.scales is not None
    return stored.view(np.int8), in_order(matrix.scales, 1).astype(np.float16)


def again(weight: Fp32, bits: int) -> Fp32:
    """A matrix that fills its groups, as it is packed."""
    whole, scales = unpacked(packed(weight, FORMS[bits]), bits)
    wide = whole * np.repeat(scales.astype(np.float32), GROUP, 1)
    return wide[: len(weight), : weight.shape[1]]


def drawn(kind: str, rows: int, columns: int, bits: int, seed: int) -> Fp32:
    """A matrix [rows, columns] of one kind."""
    generator = np.random.default_rng(seed)
    weight = generator.normal(0, 0.02, (rows, columns)).astype(np.float32)
    if kind in ("rounded before", "half of them"):
        wide = np.pad(weight, ((0, 0), (0, -columns % GROUP)))
        whole, scale = grouped(wide, bits)
        most = 7 if bits == 4 else 127
        whole = np.clip(whole, -most, generator.integers(1, most + 1, whole.shape).astype(np.int8))
        before = (whole * np.repeat(scale.astype(np.float32), GROUP, 1))[:, :columns]
        weight = np.where(generator.random(weight.shape) < 0.5, before, weight) if kind == "half of them" else before
    return weight * np.float32({"small": 1e-6, "zeros": 0, "large": 1e5}.get(kind, 1))


@EACH_FORM
@given(st.sampled_from(KINDS), st.integers(1, 40), st.integers(1, 150), st.integers(0, 99))
@example("rounded before", 33, 64, 0)
@example("zeros", 1, 1, 0)
def test_groups_are_those_of_numpy(form: Format, bits: int, kind: str, rows: int, columns: int, seed: int) -> None:
    weight = drawn(kind, rows, columns, bits, seed)
    whole, scales = unpacked(packed(weight, form), bits)
    wide = np.pad(weight, ((0, -rows % OUTPUTS), (0, -columns % INPUTS)))
    wanted, wanted_scales = grouped(wide, bits)
    assert np.array_equal(whole, wanted) and np.array_equal(scales, wanted_scales)


@EACH_FORM
def test_each_part_of_a_long_matrix_was_rounded_before_or_not(form: Format, bits: int) -> None:
    weight = np.concatenate([drawn(kind, ROWS_AT_ONCE, INPUTS, bits, 0) for kind in ("rounded before", "normal")])
    whole, scales = unpacked(packed(weight, form), bits)
    for at in (0, ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        wanted, wanted_scales = grouped(weight[part], bits)
        assert np.array_equal(whole[part], wanted) and np.array_equal(scales[part], wanted_scales)


@given(st.sampled_from(KINDS), st.integers(1, 40), st.integers(1, 150), st.integers(0, 99))
def test_rows_are_those_of_numpy(kind: str, rows: int, columns: int, seed: int) -> None:
    weight = drawn(kind, rows, columns, 8, seed)
    matrix, (whole, scale) = packed(weight, "int8"), quantized(weight)
    stored = in_order(matrix.weights, 4)
    assert np.array_equal(stored[:rows, :columns], whole)
    assert not stored[rows:].any() and not stored[:, columns:].any()
    assert matrix.scales is not None and matrix.sums is not None
    assert np.array_equal(matrix.scales[:rows], scale[:, 0]) and not matrix.scales[rows:].any()
    assert np.array_equal(matrix.sums[:rows], whole.sum(1, dtype=np.int32) * 128) and not matrix.sums[rows:].any()


@pytest.mark.parametrize("half", [1e-7, 6e-5, 0.1, 4000, FP16_MAX])
def test_a_scale_is_the_nearest_of_fp16(half: float) -> None:
    """Subnormal numbers, too; of two that are as near the even one."""
    exact = np.float16(half)
    below = np.nextafter(exact, np.float16(0)).astype(np.float32)
    each = np.array([below + (exact - below) * part / 4 for part in range(5)], np.float32)
    weight = np.float32(127) * each[:, None] * np.eye(1, GROUP, dtype=np.float32)
    _, scales = unpacked(packed(weight, "int8_groups"), 8)
    assert np.array_equal(scales[: len(each), 0], each.astype(np.float16))


@given(st.data(), st.sampled_from([4, 8]))
def test_weights_that_were_rounded_in_groups_stay_as_they_are(data: st.DataObject, bits: int) -> None:
    seed = data.draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    least = -8 if bits == 4 else -127
    whole = generator.integers(least, -least, (3, 2 * GROUP), dtype=np.int8)
    whole[:, ::GROUP] = least  # as ggml rounds: the largest magnitude becomes the least number
    if bits == 4:  # but in files that weigh activations: some groups end before it
        whole[0, :GROUP] = np.clip(whole[0, :GROUP], *data.draw(st.sampled_from([(-7, 7), (-3, 5), (-1, 0), (0, 0)])))
    scale = generator.normal(0, data.draw(st.sampled_from([1e-4, 1.0, 100.0])), (3, 2)).astype(np.float16)
    if bits == 8:
        scale = np.abs(scale)
    weight = whole * np.repeat(scale.astype(np.float32), GROUP, 1)
    assert np.array_equal(again(weight, bits), weight)


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 8]), st.floats(1e-3, 1e3))
def test_rounding_is_off_by_half_a_step_at_most(seed: int, bits: int, size: float) -> None:
    weight = np.random.default_rng(seed).normal(0, size, (4, GROUP)).astype(np.float32)
    step = np.abs(weight).max(1, keepdims=True) / (8 if bits == 4 else 127)
    ends = 1 if bits == 4 else 0.5  # the other end of 4 bits has 7 steps, and the largest number 8
    assert (np.abs(weight - again(weight, bits)) <= 1.01 * ends * step).all()


def test_scales_beyond_what_fp16_holds_are_refused_with_a_remedy() -> None:
    with pytest.raises(ModelError, match="beyond what fp16 holds: set weights to 'fp32' or 'int8'"):
        packed(np.full((1, GROUP), 9 * FP16_MAX, np.float32), "int4")
