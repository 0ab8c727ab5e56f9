"""Which decoder a model gets: measured once for each shape and machine, remembered, and told with its reason."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from efim_ls.completion.models.cache_file import CacheFile
from model_runtime.checkpoint.config import ModelConfig, parse_config
from model_runtime.checkpoint.weights import Weights, expected_shapes
from model_runtime.decoder import linear
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.native import library
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.errors import ModelError
from model_runtime.loading import autotune
from model_runtime.loading.autotune import (
    FORMATS,
    PASS_COUNTS,
    SAMPLE_PARAMETERS,
    TIMED_CONTEXT,
    CpuMethod,
    PassTimes,
    choose_method,
    remembered_times,
    supported_formats,
)
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import DecoderOptions, Model, load, load_on_cpu
from model_runtime.loading.memory_fit import usable_formats
from tests.compiled import require_compiled
from tests.models import Tiny, config

SHAPE = parse_config(config(Tiny()))
TORCH = CpuMethod("fp32", False), CpuMethod("fp16", False)
WAYS = *TORCH, CpuMethod("fp16", True), CpuMethod("int8", True)
COMPILED = WAYS[2:]
WITHOUT_COMPILED = *TORCH, CpuMethod("int8", False)
TODAY = "measured now"


class Measuring:
    """Says what it is told instead of measuring, and counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.figures = {str(way): float(10 - i) for i, way in enumerate(WAYS)} | {"int8 torch": 12.0}

    def __call__(self, config: ModelConfig, ways: list[CpuMethod], threads: int) -> dict[str, PassTimes]:
        self.calls += 1
        return {str(way): PassTimes(*[self.figures[str(way)]] * 3) for way in ways}


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """A machine on which each of the four ways works."""
    double = Measuring()
    monkeypatch.setattr(autotune, "_measure", double)
    monkeypatch.setattr(autotune, "native_missing", lambda config: None)
    monkeypatch.setattr(linear, "packed_format", lambda: "fp16")
    monkeypatch.setattr(linear, "int8_is_exact", lambda: True)
    return double


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "speed.json"


def test_what_is_measured_is_remembered_and_not_measured_again(measuring: Measuring, notes: Path) -> None:
    way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert TODAY in reason
    again, later = choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert (again, measuring.calls) == (way, 1)
    day = next(iter(json.loads(notes.read_text()).values()))[0]
    assert later == reason.replace(TODAY, f"measured on {day}")


def test_one_measurement_serves_every_setting(measuring: Measuring, notes: Path) -> None:
    for wanted in ("fp16", "auto", "fp16"):
        choose_method(SHAPE, wanted, 1, CacheFile(notes))
    assert measuring.calls == 1


def test_without_a_file_to_remember_it_in_it_is_measured_each_time(measuring: Measuring) -> None:
    assert choose_method(SHAPE, "auto", 1, None) == choose_method(SHAPE, "auto", 1, None)
    assert measuring.calls == 2


OTHERS = {
    "hidden": replace(SHAPE, hidden=64),
    "layers": replace(SHAPE, layers=3),
    "key heads": replace(SHAPE, kv_heads=4),
    "vocabulary": replace(SHAPE, vocab=401),
    "family": replace(SHAPE, family="qwen2"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_shape_is_measured_anew_and_both_are_remembered(
    measuring: Measuring, notes: Path, other: str
) -> None:
    for _ in range(2):
        choose_method(SHAPE, "auto", 1, CacheFile(notes))
        choose_method(OTHERS[other], "auto", 1, CacheFile(notes))
    assert measuring.calls == 2


def test_context_and_ends_of_text_do_not_matter(measuring: Measuring, notes: Path) -> None:
    choose_method(SHAPE, "auto", 1, CacheFile(notes))
    choose_method(replace(SHAPE, context=1024, end_ids=(1, 2)), "auto", 1, CacheFile(notes))
    assert measuring.calls == 1


def test_another_number_of_threads_is_measured_anew(measuring: Measuring, notes: Path) -> None:
    for threads in (1, 2, 1, 2):
        choose_method(SHAPE, "auto", threads, CacheFile(notes))
    assert measuring.calls == 2


@pytest.mark.parametrize("changed", ["torch", "cpu"])
def test_another_torch_or_cpu_is_measured_anew(
    measuring: Measuring, notes: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(autotune, "native_missing", lambda config: "not built")
    choose_method(SHAPE, "auto", 1, CacheFile(notes))
    if changed == "torch":
        monkeypatch.setattr(autotune, "version", lambda package: "99.0")
    else:
        monkeypatch.setattr(autotune, "cpu_name", lambda: "another")
    for _ in range(2):
        choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert measuring.calls == 2


def test_a_way_that_was_not_there_when_it_was_measured_is_measured(
    measuring: Measuring, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "native_missing", lambda config: "not built")
    choose_method(SHAPE, "auto", 1, CacheFile(notes))
    monkeypatch.setattr(autotune, "native_missing", lambda config: None)
    way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert (way.compiled, measuring.calls) == (True, 2)
    assert TODAY in reason


def test_notes_of_others_survive(measuring: Measuring, notes: Path) -> None:
    notes.parent.mkdir()
    notes.write_text(json.dumps({"another machine": ["2026-01-01", {"fp64 abacus": [7.5, 8.0, 9.0]}]}))
    choose_method(SHAPE, "auto", 1, CacheFile(notes))
    found = json.loads(notes.read_text())
    assert len(found) == 2
    assert found["another machine"] == ["2026-01-01", {"fp64 abacus": [7.5, 8.0, 9.0]}]


DAMAGED = {
    "empty": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "a number": b"5",
    "a key without figures": b'{"a": 1}',
    "figures that are too many": b'{"a": [1, 2, 3]}',
    "figures that are a list": b'{"a": ["2026-01-01", []]}',
    "one figure for each way, as before": b'{"a": ["2026-01-01", {"fp32 torch": 7.5}]}',
    "a figure too few": b'{"a": ["2026-01-01", {"fp32 torch": [7.5, 8.0]}]}',
    "figures that are none": b'{"a": ["2026-01-01", {"fp32 torch": null}]}',
    "figures that are words": b'{"a": ["2026-01-01", {"fp32 torch": "fast"}]}',
    "a figure beyond measure": b'{"a": ["2026-01-01", {"fp32 torch": [1, 1, 1' + b"0" * 400 + b"]}]}",
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_or_foreign_notes_mean_measuring_again(measuring: Measuring, notes: Path, damage: str) -> None:
    notes.parent.mkdir()
    notes.write_bytes(DAMAGED[damage])
    for _ in range(2):
        assert choose_method(SHAPE, "auto", 1, CacheFile(notes))[0] == CpuMethod("int8", True)
    assert measuring.calls == 1, "mended by what was measured"


def test_a_folder_in_place_of_notes_means_measuring_each_time_and_a_line_in_the_log(
    measuring: Measuring, notes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes.mkdir(parents=True)
    caplog.set_level(logging.INFO)
    for _ in range(2):
        assert choose_method(SHAPE, "auto", 1, CacheFile(notes))[0] == CpuMethod("int8", True)
    assert measuring.calls == 2
    assert [str(notes) in record.getMessage() for record in caplog.records] == [True, True]


def test_a_file_in_place_of_their_folder_is_no_failure(measuring: Measuring, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert choose_method(SHAPE, "auto", 1, CacheFile(tmp_path / "cache" / "speed.json"))[0] == CpuMethod("int8", True)
    assert measuring.calls == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="this user may read and write everything")
def test_notes_without_permission_are_no_failure(measuring: Measuring, notes: Path) -> None:
    choose_method(SHAPE, "auto", 1, CacheFile(notes))
    notes.chmod(0)
    notes.parent.chmod(0o500)
    assert choose_method(SHAPE, "auto", 1, CacheFile(notes))[0] == CpuMethod("int8", True)
    notes.parent.chmod(0o700)
    assert measuring.calls == 2


@pytest.mark.parametrize("fastest", [*COMPILED, *WITHOUT_COMPILED], ids=str)
def test_the_fastest_wins_and_the_reason_names_every_figure(
    measuring: Measuring, notes: Path, monkeypatch: pytest.MonkeyPatch, fastest: CpuMethod
) -> None:
    if not fastest.compiled:
        monkeypatch.setattr(autotune, "native_missing", lambda config: "not built")
    measuring.figures[str(fastest)] = 0.25
    for way, reason in [choose_method(SHAPE, "auto", 1, CacheFile(notes)) for _ in range(2)]:
        assert way == fastest
        ways = COMPILED if fastest.compiled else WITHOUT_COMPILED
        assert all(f"{each} {measuring.figures[str(each)]:.2f}" in reason for each in ways)
        assert "ms" in reason


def test_beside_compiled_ways_torchs_are_not_timed_and_the_reason_says_so(measuring: Measuring, notes: Path) -> None:
    measuring.figures["fp16 torch"] = 0.25
    way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert way == CpuMethod("int8", True) and "torch is left out: it is slower" in reason
    assert set(next(iter(json.loads(notes.read_text()).values()))[1]) == {str(way) for way in COMPILED}


def test_where_no_compiled_way_holds_the_weights_torchs_are_timed(measuring: Measuring, notes: Path) -> None:
    for _ in range(2):
        way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes), FORMATS, COMPILED)
        assert way == CpuMethod("fp16", False) and "int8 compiled is left out: it cannot hold the weights" in reason
    assert measuring.calls == 1


def test_the_format_asked_for_limits_the_ways(
    measuring: Measuring, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "native_missing", lambda config: "not built")
    way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes), ["fp32", "fp16"])
    assert (way, measuring.calls) == (CpuMethod("fp16", False), 1)
    assert "fp32 torch 10.00, fp16 torch 9.00 ms" in reason and "int8" not in reason
    measuring.figures["fp32 torch"] = 1.0
    assert choose_method(SHAPE, "auto", 2, CacheFile(notes), ["fp32", "fp16"])[0] == CpuMethod("fp32", False)


def failing(package: str) -> str:
    raise PackageNotFoundError(package)


def test_without_torch_only_what_it_alone_computes_is_refused_with_a_remedy(
    measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "find_spec", lambda name: None)
    monkeypatch.setattr(autotune, "version", failing)
    assert supported_formats(SHAPE) == ["fp16", "int8"]
    assert choose_method(SHAPE, "auto", 1, None)[0] == CpuMethod("int8", True)
    for ask in (lambda: choose_method(SHAPE, "fp32", 1, None), lambda: usable_formats(SHAPE, "fp32", 0)):
        with pytest.raises(ModelError, match="'fp32'.*torch is not installed: run .*pip install .*torch$"):
            ask()
    monkeypatch.setattr(autotune, "native_missing", lambda config: "this CPU has no AVX-512")
    assert supported_formats(SHAPE) == [] and remembered_times(SHAPE, 1, None) == {}
    for ask in (lambda: choose_method(SHAPE, "auto", 1, None), lambda: usable_formats(SHAPE, "auto", 0)):
        with pytest.raises(ModelError, match="no AVX-512.*torch is not installed: run .*pip install .*torch$"):
            ask()


@pytest.mark.parametrize(("wanted", "only"), [("fp32", WAYS[0]), ("fp16", WAYS[2]), ("int8", WAYS[3])])
def test_where_there_is_one_way_nothing_is_measured(
    measuring: Measuring, notes: Path, wanted, only: CpuMethod
) -> None:
    assert choose_method(SHAPE, wanted, 1, CacheFile(notes)) == (only, "asked for by the setting")
    assert measuring.calls == 0 and not notes.exists()


LACKS = {
    "not built": ("it was not built: use gcc", "it was not built: use gcc"),
    "an older CPU": (SimpleNamespace(efim_supported=lambda instructions: 0), "neither AVX2"),
}


@pytest.fixture(params=LACKS)
def lack(request: pytest.FixtureRequest, measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine without the compiled decoder; the reason that it has to give."""
    lib, why = LACKS[request.param]
    monkeypatch.setattr(library, "library", lambda: lib)
    monkeypatch.setattr(autotune, "native_missing", native_missing)
    return why


def test_without_the_compiled_part_torch_computes_alone_and_says_why(
    measuring: Measuring, lack: str, notes: Path
) -> None:
    way, reason = choose_method(SHAPE, "auto", 1, CacheFile(notes))
    assert way == CpuMethod("fp16", False)
    assert lack in reason and "compiled decoder is left out" in reason
    assert set(next(iter(json.loads(notes.read_text()).values()))[1]) == {str(way) for way in WITHOUT_COMPILED}
    way, reason = choose_method(SHAPE, "fp16", 1, CacheFile(notes))
    assert way == CpuMethod("fp16", False)
    assert "asked for by the setting" in reason and lack in reason


def test_int8_without_the_compiled_part_is_torchs(lack: str) -> None:
    way, reason = choose_method(SHAPE, "int8", 1, None)
    assert way == CpuMethod("int8", False) and lack in reason


def test_int8_without_any_way_is_refused_with_a_remedy(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "int8_is_exact", lambda: False)
    with pytest.raises(ModelError, match=f"'int8' cannot be used.*{lack}.*set weights to 'auto'"):
        choose_method(SHAPE, "int8", 1, None)


def test_heads_that_it_cannot_compute_leave_the_compiled_part_out(
    measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "library", lambda: SimpleNamespace(efim_supported=lambda instructions: 1))
    monkeypatch.setattr(autotune, "native_missing", native_missing)
    way, reason = choose_method(replace(SHAPE, head_dim=24), "auto", 1, None)
    assert not way.compiled and "24 dimensions" in reason


def test_fp16_without_any_way_is_refused_with_a_remedy(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "packed_format", lambda: "fp32")
    monkeypatch.setattr(linear, "int8_is_exact", lambda: False)
    with pytest.raises(ModelError, match="'fp16' cannot be used.*set weights to 'auto'"):
        choose_method(SHAPE, "fp16", 1, None)
    way, reason = choose_method(SHAPE, "auto", 1, None)
    assert way == CpuMethod("fp32", False)
    assert reason.startswith("there is no other") and lack in reason


def test_the_sample_has_the_models_widths_and_no_more_layers_and_words_than_needed() -> None:
    large = replace(SHAPE, hidden=896, heads=14, head_dim=64, intermediate=4864, layers=24, vocab=151_936)
    sample = autotune._sample(large)
    assert replace(sample, layers=24, vocab=large.vocab, context=large.context) == large
    assert (sample.layers, sample.vocab, sample.context) == (1, 4096, TIMED_CONTEXT + max(PASS_COUNTS))
    tiny = autotune._sample(SHAPE)
    assert replace(tiny, context=SHAPE.context) == SHAPE
    many = autotune._sample(replace(SHAPE, layers=10**6))
    shapes = {name: shape for name, shape in expected_shapes(many).items() if ".layers." in name and len(shape) == 2}
    parameters = sum(rows * columns for rows, columns in shapes.values())
    assert 0.9 * SAMPLE_PARAMETERS < parameters <= SAMPLE_PARAMETERS


def test_it_really_measures_every_way_that_works_here() -> None:
    ways = [*autotune._compiled_ways(SHAPE), *autotune._torch_ways(SHAPE)]
    figures = autotune._measure(SHAPE, ways, threads=1)
    assert list(figures) == [str(way) for way in ways]
    assert all(ms > 0 for times in figures.values() for ms in times)


def test_a_pass_of_an_answer_and_a_row_of_a_prompt_follow_from_three_widths() -> None:
    times = PassTimes(1.0, 2.0, 64.0)
    assert times.mean == (10 * 1.0 + 2.0 + 0.5 * 64.0) / 11.5
    assert (times.row, times.times(3)) == (1.0, (3.0, 6.0, 192.0))


def test_a_way_makes_its_decoder() -> None:
    require_compiled()
    weights: Weights = {name: np.ones(shape, dtype=np.float32) for name, shape in expected_shapes(SHAPE).items()}
    kinds = [type(way.decoder(SHAPE, weights, 1)) for way in (*WAYS, *WITHOUT_COMPILED)]
    assert kinds == [Decoder, Decoder, NativeDecoder, NativeDecoder, *[Decoder] * 3]


def loaded(folder: Path, weights, measured: Path | None = None) -> Model:
    return load(
        read_checkpoint(folder),
        device="cpu",
        weights=weights,
        threads=1,
        capacity=512,
        kv_memory_mib=64,
        local_cache=False,
        speed_notes=CacheFile(measured) if measured else None,
        progress=lambda *_: None,
    )


def test_loading_passes_it_on(folder: Path) -> None:
    require_compiled()
    found = loaded(folder, "int8").description
    assert (found.weights, found.decoder, found.decoder_reason) == ("int8", "compiled", "asked for by the setting")
    found = loaded(folder, "fp32").description
    assert (found.weights, found.decoder, found.decoder_reason) == ("fp32", "torch", "asked for by the setting")


@pytest.mark.parametrize(("inputs", "forms"), [(133_144, ["fp32", "fp16", "int8"]), (133_145, ["fp32", "fp16"])])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("field", ["hidden", "intermediate", "heads"])
def test_products_whose_sums_overflow_are_not_made_of_int8(
    measuring: Measuring, monkeypatch: pytest.MonkeyPatch, inputs: int, forms: list[str], compiled: bool, field: str
) -> None:
    monkeypatch.setattr(autotune, "native_missing", lambda config: None if compiled else "not built")
    shape = replace(SHAPE, head_dim=1, **{field: inputs})
    assert supported_formats(shape) == forms
    if "int8" not in forms:
        assert choose_method(shape, "auto", 1, None)[0].form != "int8"
        with pytest.raises(ModelError, match="133,145 inputs overflow.*set weights to 'auto'"):
            choose_method(shape, "int8", 1, None)
        with pytest.raises(ModelError, match="overflow"):
            linear.linear(torch.ones(1, inputs), None, "int8")


def test_weights_that_fp16_cannot_hold_are_computed_in_the_next_way(measuring: Measuring) -> None:
    require_compiled()
    weights: Weights = {name: np.ones(shape, dtype=np.float32) for name, shape in expected_shapes(SHAPE).items()}
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = 70_000.0
    measuring.figures |= {"fp16 compiled": 0.25, "int8 compiled": 0.5}

    def computed(wanted) -> Runtime:
        options = DecoderOptions(weights=wanted, threads=1, speed_notes=None)
        return load_on_cpu(SHAPE, weights, 64, 1, options, FORMATS)

    found = computed("auto")
    assert (found.weights, found.name) == ("int8", "compiled")
    assert "fp16 compiled is left out: it cannot hold the weights" in found.reason
    with pytest.raises(ModelError, match="beyond what fp16 holds: set weights to"):
        computed("fp16")


def test_loading_measures_once(folder: Path, measuring: Measuring, notes: Path) -> None:
    measuring.figures["fp16 compiled"] = 0.5
    first, second = (loaded(folder, "auto", notes).description for _ in range(2))
    assert measuring.calls == 1
    assert (first.weights, first.decoder) == (second.weights, second.decoder) == ("fp16", "compiled")
    assert TODAY in first.decoder_reason and "measured on 2" in second.decoder_reason
