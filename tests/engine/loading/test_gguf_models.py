"""A model in GGUF is the same model: its shape, logits and prompts; quantized numbers are widened as by ggml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import as_fp32, read_weights
from model_runtime.decoder.quantization import GROUP
from model_runtime.kv.arena import DenseArena
from model_runtime.loading import memory_fit
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import LoadedModel
from model_runtime.loading.memory_fit import kv_bytes, memory_need, model_size
from tests.compiled import require_compiled
from tests.engine.decoder.packed.grouping import grouped
from tests.engine.gguf_files import gguf, write
from tests.engine.loading.test_formats import CAPACITY, loaded
from tests.models import CODE, Tiny, make

WIDE = Tiny(hidden=64, intermediate=96, head_dim=32)
SHAPES = {
    "llama": WIDE,
    "llama, linear": replace(WIDE, scaling="linear", tied=False),
    "llama, yarn": replace(WIDE, scaling="yarn"),
    "llama, llama3": replace(WIDE, scaling="llama3"),
    "qwen2": replace(WIDE, family="qwen2", theta=1e6),
    "qwen3": replace(WIDE, family="qwen3", tied=False),
    "qwen3_moe": replace(WIDE, family="qwen3_moe"),
    "starcoder2": replace(WIDE, family="starcoder2"),
    "gemma": replace(WIDE, family="gemma"),
    "granite": replace(WIDE, family="granite"),
}


def logits(model: LoadedModel) -> npt.NDArray[np.float32]:
    """Return those that follow the beginning of a text."""
    ids = model.tokenizer.encode(CODE)[:80]
    decoder = model.parts.context.decoder
    return np.asarray(decoder.forward(ids, DenseArena(decoder.config, 128)))


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model") / "tiny", SHAPES[request.param], half=True)


def test_a_model_is_the_same_in_gguf(folder: Path, tmp_path: Path) -> None:
    """bfloat16's numbers are stored exactly as F32 and as BF16."""
    path = write(tmp_path / "tiny.gguf", folder)
    assert read_config(path) == read_config(folder)
    checkpoint, wanted = read_checkpoint(path), read_checkpoint(folder)
    assert (checkpoint.template, checkpoint.tokenizer.bos) == (wanted.template, wanted.tokenizer.bos)
    assert checkpoint.tokenizer.encode(CODE).tolist() == wanted.tokenizer.encode(CODE).tolist()
    expected = logits(loaded(folder))
    assert np.abs(expected).max() > 0.5
    assert np.array_equal(logits(loaded(path)), expected)
    assert np.array_equal(logits(loaded(write(tmp_path / "bf16.gguf", folder, "BF16"))), expected)


def test_halves_are_rounded_as_they_are_in_any_file(folder: Path, tmp_path: Path) -> None:
    expected = logits(loaded(folder))
    found = logits(loaded(write(tmp_path / "f16.gguf", folder, "F16")))
    assert np.abs(found - expected).max() < 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_quantized_numbers_are_those_that_ggml_defines(folder: Path, kind: str, tmp_path: Path) -> None:
    """Those of turned heads, of experts and of embeddings, too."""
    path, config = write(tmp_path / "tiny.gguf", folder, kind), read_config(folder)
    found, exact = read_weights(path, config), read_weights(folder, config)
    assert read_checkpoint(path).quantization == kind and set(found) == set(exact)
    stored = gguf.GGMLQuantizationType[kind]
    for name, weight in found.items():
        expected = as_fp32(exact[name])
        if weight.ndim > 1 and weight.shape[-1] % 32 == 0:
            expected = gguf.dequantize(gguf.quantize(expected, stored), stored)
        assert np.array_equal(as_fp32(weight), expected), name


@pytest.mark.parametrize(("kind", "form", "bits"), [("Q4_0", "int4", 4), ("Q8_0", "int8_groups", 8)])
def test_auto_keeps_the_numbers_of_a_file(folder: Path, kind: str, form: str, bits: int, tmp_path: Path) -> None:
    require_compiled()
    path = write(tmp_path / "tiny.gguf", folder, kind)
    described = loaded(path, "auto").parts.description
    assert (described.weights, described.decoder_reason) == (form, f"it keeps the numbers of the file, {kind}")
    assert loaded(path, "int8").parts.description.weights == "int8"
    for name, weight in read_weights(path, read_config(path)).items():
        if weight.ndim == 2 and weight.shape[1] % GROUP == 0 and weight.dtype == np.float32 and "gate.w" not in name:
            whole, scale = grouped(weight, bits)
            assert np.array_equal(whole * np.repeat(scale.astype(np.float32), GROUP, 1), weight), name


def test_auto_takes_another_format_where_memory_has_no_room_for_the_file_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_compiled()
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", replace(WIDE, layers=8), half=True), "Q8_0")
    config = read_config(path)
    arenas = loaded(path, "auto").parts.description.arenas
    needed = memory_need(model_size(config), "int8", kv_bytes(config, CAPACITY, arenas)).total
    monkeypatch.setattr(memory_fit, "available_memory", lambda: needed)
    described = loaded(path, "auto").parts.description
    assert described.weights == "int8" and "numbers of the file" not in described.decoder_reason
