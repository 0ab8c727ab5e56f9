"""Matrix products: a row alone is the row in a batch, and both packed operators are one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from model_runtime.decoder.linear import int8_is_exact, linear, packed_format
from model_runtime.decoder.quantization import FP16_MAX, Format, quantized

PACKED = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="no FBGEMM on this CPU"
)
INVARIANT = pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX512"), reason="FBGEMM's rows differ without AVX-512"
)
WHOLE = pytest.mark.skipif(not int8_is_exact(), reason="int8 products lose bits on this CPU")
SHAPES = [(48, 48), (96, 48), (400, 48), (64, 40), (17, 33), (1, 320), (864, 320)]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", [pytest.param("fp16", marks=[PACKED, INVARIANT]), pytest.param("int8", marks=WHOLE)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("out", "size"), SHAPES)
def test_a_packed_row_alone_is_the_same_row_in_a_batch_to_the_bit(
    out: int, size: int, biased: bool, form: Format
) -> None:
    product = linear(random(out, size), random(out, seed=1) if biased else None, form)
    for rows in (1, 2, 3, 5, 7, 13, 64, 97):
        x = random(rows, size, seed=rows)
        batch = product(x)
        for row in range(rows):
            assert torch.equal(product(x[row : row + 1])[0], batch[row])


@PACKED
@pytest.mark.parametrize(("out", "size"), SHAPES)
def test_packing_rounds_the_weights_to_sixteen_bits_and_nothing_else(out: int, size: int) -> None:
    weight, bias, x = random(out, size), random(out, seed=1), random(9, size, seed=2)
    found = linear(weight, bias, "fp16")(x)
    rounded = F.linear(x.double(), weight.half().double(), bias.double())
    assert found.dtype == torch.float32
    assert (found - rounded).abs().max() < 1e-4
    assert (found - F.linear(x.double(), weight.double(), bias.double())).abs().max() > 1e-5


@WHOLE
@pytest.mark.parametrize(("out", "size"), SHAPES)
@pytest.mark.parametrize("largest", [1e-3, 1.0, 1e4])
def test_int8_rounds_the_weights_and_hardly_anything_else(out: int, size: int, largest: float) -> None:
    weight, bias, x = random(out, size), random(out, seed=1), random(9, size, seed=2) * largest
    x[3] = 0
    found = linear(weight, bias, "int8")(x)
    whole, scale = map(torch.from_numpy, quantized(weight.numpy()))
    exact = F.linear(x.double(), whole.double() * scale.double(), bias.double())
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() < 5e-5 * largest + 1e-6  # the bias is rounded, too
    assert (found - F.linear(x.double(), weight.double(), bias.double())).abs().max() > 1e-2 * largest


def test_int8_is_not_for_cpus_that_saturate_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch._int_mm  # pyright: ignore
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: exact(a, b) - 1)
    int8_is_exact.cache_clear()
    assert not int8_is_exact()
    int8_is_exact.cache_clear()


@PACKED
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("out", "size"), SHAPES)
def test_the_operator_that_succeeds_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, out: int, size: int, biased: bool
) -> None:
    weight, bias = random(out, size), random(out, seed=1) if biased else None
    older = linear(weight, bias, "fp16")
    monkeypatch.delattr(torch, "fbgemm_linear_fp16_weight_fp32_activation", raising=False)
    newer = linear(weight, bias, "fp16")
    for rows in (1, 2, 31, 64):
        x = random(rows, size, seed=rows)
        assert torch.equal(newer(x), older(x))


@pytest.mark.parametrize("form", ["fp32", "fp16"])
@pytest.mark.parametrize("beyond", [FP16_MAX * 1.01, -1e9])
def test_a_weight_beyond_what_sixteen_bits_hold_stays_in_32(form: str, beyond: float) -> None:
    weight, bias, x = random(6, 8), random(6, seed=1), random(3, 8, seed=2)
    weight[4, 5] = beyond
    found = linear(weight, bias, "fp16" if form == "fp16" else "fp32")(x)
    assert torch.equal(found, F.linear(x, weight, bias))


@PACKED
def test_the_largest_number_that_sixteen_bits_hold_is_packed() -> None:
    weight, x = random(6, 8), random(3, 8, seed=2)
    weight[4, 5] = -FP16_MAX
    found = linear(weight, None, "fp16")(x)
    assert torch.isfinite(found).all()
    assert not torch.equal(found, F.linear(x, weight))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_any_type_are_computed_in_32_bits(dtype: torch.dtype) -> None:
    weight, x = random(6, 8).to(dtype), random(3, 8, seed=2)
    assert torch.equal(linear(weight, None, "fp32")(x), F.linear(x, weight.float()))


def test_weights_are_packed_where_fbgemm_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends, "quantized", SimpleNamespace(supported_engines=["qnnpack", "fbgemm"]))
    assert packed_format() == "fp16"
    monkeypatch.setattr(torch.backends, "quantized", SimpleNamespace(supported_engines=["qnnpack", "none"]))
    assert packed_format() == "fp32"
