"""Our GGUF files, read by transformers and by llama.cpp, hold the model that they were written from."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.decoding.gguf_file import Kind, write
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.ids import Ids
from tests import models
from tests.models import Tiny

# Q8_0 has blocks of 32 weights.
SHAPES = (
    Tiny(hidden=96, intermediate=64, heads=6, head_dim=32),
    Tiny(family="qwen2", hidden=64, intermediate=96, tied=False, theta=1e6),
)
CLOSE: dict[Kind, float] = {"F16": 0.02, "Q8_0": 0.2}
ROUNDED: dict[Kind, float] = {"F16": 2**-11, "Q8_0": 1 / 254 + 2**-11}  # of the largest weight; a scale is fp16, too
IDS = np.random.default_rng(0).integers(0, models.VOCABULARY, 60).astype(np.int32)


@pytest.fixture(params=SHAPES, ids=lambda tiny: tiny.family)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return models.make(tmp_path / "model", request.param)


@pytest.mark.parametrize("kind", CLOSE)
def test_transformers_reads_the_weights_and_the_shape_that_were_written(folder: Path, kind: Kind) -> None:
    """Of its own code, which turns the dimensions of Llama's heads back."""
    read, wanted = _model(_written(folder, kind).parent, gguf_file="model.gguf"), _model(folder)
    for name in ("rope_parameters", "max_position_embeddings", "num_key_value_heads", "tie_word_embeddings"):
        assert getattr(read.config, name) == getattr(wanted.config, name)
    assert read.config.rms_norm_eps == pytest.approx(wanted.config.rms_norm_eps)
    tensors = wanted.state_dict()
    assert read.state_dict().keys() == tensors.keys()
    for name, tensor in read.state_dict().items():
        most = ROUNDED[kind] * tensors[name].abs().max() if tensor.ndim > 1 else 0.0
        assert (tensor - tensors[name]).abs().max() <= most, name
    assert np.abs(_logits(read, IDS) - (logits := _logits(wanted, IDS))).max() <= CLOSE[kind] * np.abs(logits).max()


# llama.cpp itself, which `make bench` installs


@pytest.fixture
def llama() -> Any:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is installed by `make bench` only")
    from benchmarks.decoding import llama

    return llama


@pytest.mark.parametrize("kind", CLOSE)
@pytest.mark.parametrize("flash", [False, True])
def test_logits_are_those_of_transformers(llama: Any, folder: Path, kind: Kind, flash: bool) -> None:
    engine = llama.Llama(llama.Weights(_written(folder, kind)), threads=1, capacity=128, flash=flash)
    for ids in (IDS[:50], IDS[50:53], IDS[53:54]):
        logits = engine.forward(ids).copy()
        wanted = _logits(_model(folder), engine.ids)
        assert np.abs(logits - wanted).max() <= CLOSE[kind] * np.abs(wanted).max()


def test_what_prompts_share_is_computed_once(llama: Any, folder: Path) -> None:
    engine = llama.Llama(llama.Weights(_written(folder, "F16")), threads=1, capacity=128, flash=False)
    other = np.concatenate((IDS[:30], IDS[40:]))
    assert [engine.answer(ids) for ids in (IDS, other, other, IDS[:20])] == [60, 20, 1, 1]
    assert np.array_equal(engine.ids, IDS[:20])
    again = engine.forward(IDS[20:]).copy()
    assert np.abs(again - _logits(_model(folder), IDS)).max() <= CLOSE["F16"] * np.abs(again).max()


def _written(folder: Path, kind: Kind) -> Path:
    """A GGUF file of a model, in a folder of its own."""
    config, path = read_config(folder), folder.parent / "gguf" / "model.gguf"
    path.parent.mkdir()
    write(path, config, read_weights(folder, config), kind)
    return path


def _model(folder: Path, **wanted: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **wanted)


@torch.inference_mode()
def _logits(model: Any, ids: Ids) -> npt.NDArray[np.float32]:
    return model(torch.as_tensor(ids)[None].long()).logits[0, -1].numpy()
