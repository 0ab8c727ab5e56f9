"""Which decoder a model gets on a CPU: by a rule without a clock, told with its reason."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.checkpoint.config import parse_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder import linear
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.native import library
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.decoder.quantization import MOST_INT8_INPUTS, Format
from model_runtime.errors import ModelError
from model_runtime.loading import weight_format
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.decoders import DecoderOptions, load_on_cpu
from model_runtime.loading.load import LoadedModel, load
from model_runtime.loading.memory_fit import FitRequest, ModelSize, automatic_formats, model_size, usable_formats
from model_runtime.loading.weight_format import (
    COARSE,
    COARSE_FROM,
    FASTEST,
    FINE,
    FORMATS,
    ORDER,
    CpuMethod,
    choose_method,
    supported_formats,
)
from tests.compiled import require_compiled
from tests.models import Tiny, config, reshaped

ROOT = Path(__file__).parents[3]
SHAPE = parse_config(config(Tiny()))
WIDE = reshaped(SHAPE, head_dim=1, hidden=MOST_INT8_INPUTS + 1)
EXACT: tuple[Format, ...] = ("fp32", "fp16")
CAPACITY = 512  # tokens of an arena
COMPILED_ALONE: tuple[Format, ...] = ("int8_groups", "int4")


class Machine(NamedTuple):
    """What a machine can compute: by the compiled decoder, and by torch."""

    compiled: bool = True
    torch: bool = True
    fp16: bool = True
    int8: bool = True

    def pretend(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the rule see this machine."""
        monkeypatch.setattr(weight_format, "native_missing", lambda config: None if self.compiled else "not built")
        monkeypatch.setattr(weight_format, "find_spec", lambda name: self.torch or None)
        monkeypatch.setattr(linear, "packed_format", lambda: "fp16" if self.fp16 else "fp32")
        monkeypatch.setattr(linear, "int8_is_exact", lambda: self.int8)


COMPILED, TORCH = Machine(), Machine(compiled=False)
NO_FBGEMM = Machine(compiled=False, fp16=False)


@pytest.mark.parametrize(
    ("machine", "shape", "fitting", "taken"),
    [
        (COMPILED, SHAPE, FINE, "int8 compiled"),
        (COMPILED, SHAPE, FORMATS, "int4 compiled"),
        (COMPILED, WIDE, FORMATS, "int4 compiled"),
        (COMPILED, SHAPE, ["int8"], "int8 compiled"),
        (COMPILED, WIDE, FINE, "fp16 compiled"),
        (Machine(torch=False), SHAPE, FINE, "int8 compiled"),
        (Machine(torch=False), WIDE, FINE, "fp16 compiled"),
        (TORCH, SHAPE, FORMATS, "fp16 torch"),
        (TORCH, SHAPE, ["fp16", "int8"], "fp16 torch"),
        (TORCH, SHAPE, ["int8"], "int8 torch"),
        (TORCH, WIDE, FORMATS, "fp16 torch"),
        (NO_FBGEMM, SHAPE, FORMATS, "fp32 torch"),
        (NO_FBGEMM, SHAPE, ["int8"], "int8 torch"),
        (NO_FBGEMM, WIDE, FORMATS, "fp32 torch"),
        (Machine(compiled=False, fp16=False, int8=False), SHAPE, FORMATS, "fp32 torch"),
    ],
)
def test_the_rule(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, shape, fitting: list[Format], taken: str
) -> None:
    machine.pretend(monkeypatch)
    way, reason = choose_method(shape, "auto", fitting)
    assert str(way) == taken
    ways = (COARSE, *ORDER) if COARSE.form in fitting else ORDER
    before = ways[: ways.index(way)]
    assert reason.startswith(FASTEST) and all(str(each) in reason for each in before)


@pytest.mark.parametrize("form", COMPILED_ALONE)
def test_weights_in_groups_need_the_compiled_decoder(monkeypatch: pytest.MonkeyPatch, form: Format) -> None:
    COMPILED.pretend(monkeypatch)
    assert choose_method(SHAPE, form, [form])[0] == (form, True)
    TORCH.pretend(monkeypatch)
    with pytest.raises(ModelError, match=f"{form}.*not built.*set weights to 'auto'"):
        choose_method(SHAPE, form, [form])


@pytest.mark.parametrize("machine", [COMPILED, TORCH])
@pytest.mark.parametrize("wanted", sorted({*FORMATS} - {*COMPILED_ALONE}))
def test_a_format_that_is_asked_for_is_taken(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, wanted: Format
) -> None:
    machine.pretend(monkeypatch)
    way, reason = choose_method(SHAPE, wanted)
    assert way == (wanted, machine.compiled and wanted != "fp32")
    assert reason.startswith("asked for by the setting") and ("not built" in reason) == (way.form != "fp32") * (
        not machine.compiled
    )


@given(
    parameters=st.integers(COARSE_FROM - 2, COARSE_FROM + 2) | st.integers(1, 1 << 40),
    quantization=st.sampled_from(["", "F16", "BF16", "F32", "Q4_0", "Q4_K", "Q6_K", "Q8_0", "IQ4_NL"]),
)
def test_auto_takes_int4_for_large_models_that_were_not_rounded_before(parameters: int, quantization: str) -> None:
    allowed = automatic_formats(ModelSize(parameters, 1), FORMATS, quantization)
    assert [form for form in FORMATS if form not in allowed] in ([], [COARSE.form])
    assert (COARSE.form in allowed) == (parameters >= COARSE_FROM and quantization in ("", "F16", "BF16", "F32"))


def test_a_large_model_is_loaded_in_int4_unless_another_format_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_compiled()
    size = model_size(SHAPE).parameters
    for least, form in ((size, "int4"), (size + 1, "int8")):
        monkeypatch.setattr("model_runtime.loading.memory_fit.COARSE_FROM", least)
        assert loaded(folder, "auto").parts.description.weights == form
    monkeypatch.setattr("model_runtime.loading.memory_fit.COARSE_FROM", size)
    assert loaded(folder, "int8").parts.description.weights == "int8"


def test_what_was_left_out_is_told_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    TORCH.pretend(monkeypatch)
    _, reason = choose_method(SHAPE, "auto", ["int8"])
    assert reason == (
        f"{FASTEST}; int8 compiled left out: not built; "
        "fp16 compiled and fp16 torch and fp32 torch left out: there is not enough memory"
    )


def test_nothing_that_loads_a_model_can_measure_it() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for package in ("efim_ls", "model_runtime")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "model_runtime.loading.pass_times"
    }
    assert importers == {
        "efim_ls/commands/doctor.py",
        *(f"efim_ls/commands/models/{each}.py" for each in ("advice", "rows", "table")),
    }


@pytest.mark.parametrize("compiled", [True, False])
def test_loading_runs_no_pass_and_chooses_the_same_at_every_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if compiled:
        require_compiled()
    else:
        monkeypatch.setattr(weight_format, "native_missing", lambda config: "not built")

    def refuse(*_: Any) -> None:
        raise AssertionError("a pass")

    monkeypatch.setattr(NativeDecoder, "forward_spans", refuse)
    monkeypatch.setattr(Decoder, "forward_spans", refuse)
    first, second = (loaded(folder, "auto") for _ in range(2))
    assert first.parts.description == second.parts.description and first.kv.fingerprint == second.kv.fingerprint
    assert first.parts.description.decoder == ("compiled" if compiled else "torch")
    assert first.parts.description.decoder_reason.startswith(FASTEST)


def test_without_torch_only_what_it_alone_computes_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(torch=False).pretend(monkeypatch)
    assert supported_formats(SHAPE) == ["fp16", "int8", "int4"]
    for ask in (lambda: choose_method(SHAPE, "fp32"), lambda: usable_formats(FitRequest(SHAPE, "fp32", 0))):
        with pytest.raises(ModelError, match="'fp32'.*torch is not installed: run .*pip install .*torch$"):
            ask()
    monkeypatch.setattr(weight_format, "native_missing", lambda config: "this CPU has no AVX-512")
    assert supported_formats(SHAPE) == []
    for ask in (lambda: choose_method(SHAPE, "auto"), lambda: usable_formats(FitRequest(SHAPE, "auto", 0))):
        with pytest.raises(ModelError, match="no AVX-512.*torch is not installed: run .*pip install .*torch$"):
            ask()


LACKS = {
    "not built": ("it was not built: use gcc", "it was not built: use gcc"),
    "an older CPU": (SimpleNamespace(efim_supported=lambda instructions: 0), "neither AVX2"),
}


@pytest.fixture(params=LACKS)
def lack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine without the compiled decoder; the reason that it has to give."""
    lib, why = LACKS[request.param]
    TORCH.pretend(monkeypatch)
    monkeypatch.setattr(library, "library", lambda: lib)
    monkeypatch.setattr(weight_format, "native_missing", native_missing)
    return why


@pytest.mark.parametrize(("wanted", "form"), [("auto", "fp16"), ("fp16", "fp16"), ("int8", "int8")])
def test_without_the_compiled_part_torch_computes_and_the_reason_says_why(lack: str, wanted, form: Format) -> None:
    way, reason = choose_method(SHAPE, wanted)
    assert way == CpuMethod(form, False)
    assert lack in reason and f"{form} compiled" in reason


@pytest.mark.parametrize("wanted", ["fp16", "int8"])
def test_a_format_without_any_way_is_refused_with_a_remedy(
    lack: str, monkeypatch: pytest.MonkeyPatch, wanted
) -> None:
    monkeypatch.setattr(linear, "packed_format", lambda: "fp32")
    monkeypatch.setattr(linear, "int8_is_exact", lambda: False)
    with pytest.raises(ModelError, match=f"'{wanted}' cannot be used.*{lack}.*{wanted}.*set weights to 'auto'"):
        choose_method(SHAPE, wanted)


def test_heads_that_it_cannot_compute_leave_the_compiled_part_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "library", lambda: SimpleNamespace(efim_supported=lambda instructions: 1))
    way, reason = choose_method(reshaped(SHAPE, head_dim=24), "auto")
    assert not way.compiled and "heads of 24 numbers" in reason


def test_a_way_makes_its_decoder() -> None:
    require_compiled()
    weights: Weights = {name: np.ones(shape, dtype=np.float32) for name, shape in expected_shapes(SHAPE).items()}
    kinds = [type(way.decoder(SHAPE, weights, 1)) for way in (*ORDER, COARSE)]
    assert kinds == [NativeDecoder, NativeDecoder, Decoder, Decoder, Decoder, NativeDecoder]


def loaded(folder: Path, weights: Literal["auto"] | Format = "fp32") -> LoadedModel:
    return load(
        read_checkpoint(folder),
        device="cpu",
        weights=weights,
        threads=1,
        capacity=CAPACITY,
        kv_memory_mib=64,
        ngrams=False,
        progress=lambda *_: None,
    )


def test_loading_passes_it_on(folder: Path) -> None:
    require_compiled()
    found = loaded(folder, "int8").parts.description
    assert (found.weights, found.decoder, found.decoder_reason) == ("int8", "compiled", "asked for by the setting")
    found = loaded(folder, "fp32").parts.description
    assert (found.weights, found.decoder, found.decoder_reason) == ("fp32", "torch", "asked for by the setting")


@pytest.mark.parametrize(("inputs", "forms"), [(133_144, ["fp32", "fp16", "int8"]), (133_145, ["fp32", "fp16"])])
@pytest.mark.parametrize("machine", [COMPILED, TORCH])
@pytest.mark.parametrize("field", ["hidden", "intermediate", "heads"])
def test_products_whose_sums_overflow_are_not_made_of_int8(
    monkeypatch: pytest.MonkeyPatch, inputs: int, forms: list[str], machine: Machine, field: str
) -> None:
    machine.pretend(monkeypatch)
    shape = reshaped(SHAPE, head_dim=1, **{field: inputs})
    assert [form for form in supported_formats(shape) if form != "int4"] == forms
    if "int8" not in forms:
        assert choose_method(shape, "auto")[0].form != "int8"
        with pytest.raises(ModelError, match="133,145 inputs overflow.*set weights to 'auto'"):
            choose_method(shape, "int8")
        with pytest.raises(ModelError, match="overflow"):
            linear.linear(torch.ones(1, inputs), None, "int8")


def test_weights_that_fp16_cannot_hold_are_computed_in_the_next_way(monkeypatch: pytest.MonkeyPatch) -> None:
    require_compiled()
    weights: Weights = {name: np.ones(shape, dtype=np.float32) for name, shape in expected_shapes(SHAPE).items()}
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = 600_000.0

    def computed(wanted) -> Runtime:
        return load_on_cpu(SHAPE, weights, 64, 1, DecoderOptions(weights=wanted, threads=1), FORMATS)

    assert (computed("auto").weights, computed("auto").name) == ("int8", "compiled")
    with pytest.raises(ModelError, match="beyond what fp16 holds: set weights to"):
        computed("fp16")
    monkeypatch.setattr(weight_format, "int8_too_wide", lambda config: "too wide")
    found = computed("auto")
    assert (found.weights, found.name) == ("fp16", "torch")
    assert "int4 compiled and fp16 compiled left out: the weights are beyond its range" in found.reason
