"""What `make bench` compares with, transformers compiled, computes what it does eagerly."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from benchmarks.decoding.sides import STEP_ROWS, CompiledTransformers, Transformers
from tests.models import VOCABULARY, Tiny, make


def test_a_compiled_side_computes_what_an_eager_one_does(tmp_path: Path) -> None:
    make(tmp_path, Tiny(context=1024, layers=1))  # each layer takes seconds to compile
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = np.arange(100, dtype=np.int32) % VOCABULARY
    sides = (Transformers(model), CompiledTransformers(model, 100 + STEP_ROWS))
    for side in sides:
        side.forward(ids)
    for start in (100, 90):  # once more behind fewer tokens
        for side in sides:
            side.truncate(start)
        eager, compiled = (cast("torch.Tensor", side.forward(ids[:4])) for side in sides)
        assert torch.allclose(eager, compiled, atol=1e-4)
