"""llama.cpp, given our GGUF files, computes what transformers does with the same weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.ids import Ids
from tests import models
from tests.models import Tiny

pytest.importorskip("llama_cpp", reason="llama-cpp-python is installed by `make bench` only")
pytest.importorskip("gguf", reason="gguf is installed by `make bench` only")

from benchmarks.decoding.gguf_file import Kind, write
from benchmarks.decoding.llama import Llama, Weights

# Q8_0 has blocks of 32 weights.
SHAPES = (
    Tiny(hidden=96, intermediate=64, heads=6, head_dim=32),
    Tiny(family="qwen2", hidden=64, intermediate=96, tied=False, theta=1e6),
)
CLOSE: dict[Kind, float] = {"F16": 0.02, "Q8_0": 0.2}
IDS = np.random.default_rng(0).integers(0, models.VOCABULARY, 60).astype(np.int32)


@pytest.fixture(params=SHAPES, ids=lambda tiny: tiny.family)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return models.make(tmp_path, request.param)


@pytest.mark.parametrize("kind", CLOSE)
@pytest.mark.parametrize("flash", [False, True])
def test_logits_are_those_of_transformers(folder: Path, kind: Kind, flash: bool) -> None:
    llama = Llama(_loaded(folder, kind), threads=1, capacity=128, flash=flash)
    for ids in (IDS[:50], IDS[50:53], IDS[53:54]):
        logits = llama.forward(ids).copy()
        wanted = _of_transformers(folder, llama.ids)
        assert np.abs(logits - wanted).max() <= CLOSE[kind] * np.abs(wanted).max()


def test_what_prompts_share_is_computed_once(folder: Path) -> None:
    llama = Llama(_loaded(folder, "F16"), threads=1, capacity=128, flash=False)
    other = np.concatenate((IDS[:30], IDS[40:]))
    assert [llama.answer(ids) for ids in (IDS, other, other, IDS[:20])] == [60, 20, 1, 1]
    assert np.array_equal(llama.ids, IDS[:20])
    again = llama.forward(IDS[20:]).copy()
    assert np.abs(again - _of_transformers(folder, IDS)).max() <= CLOSE["F16"] * np.abs(again).max()


def _loaded(folder: Path, kind: Kind) -> Weights:
    config = read_config(folder)
    write(folder / "model.gguf", config, read_weights(folder, config), kind)
    return Weights(folder / "model.gguf")


@torch.inference_mode()
def _of_transformers(folder: Path, ids: Ids) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model(torch.as_tensor(ids)[None].long()).logits[0, -1].numpy()
