"""What `make bench` compares with, transformers compiled, computes what it does eagerly."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from benchmarks.decoding import speed
from benchmarks.decoding.process import Process
from benchmarks.decoding.sides import COMPILED, STEP_ROWS, CompiledTransformers, Transformers
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


def test_a_process_computes_in_every_way(tmp_path: Path) -> None:
    make(tmp_path, Tiny(context=1024, layers=3))
    with Process(1, tmp_path) as process:
        assert process.model["layers"] == 3
        assert process.model["read_ms"].keys() == {"fp16", "int8"}
        rows = [row for row, ms in process.turn(speed.PREFILL) if min(ms) > 0]
        assert rows[0] == "ours fp32"
        assert rows[-4:] == [
            f"transformers {name}" for dtype in ("fp32", "bf16") for name in (dtype, dtype + COMPILED)
        ]
        eager = [row for row in rows if not row.endswith(COMPILED)]  # compiling takes a while
        for work in speed.STEPS:
            assert [row for row, ms in process.turn(work, eager) if min(ms) > 0] == eager
        assert [row for row, _ in process.turn(speed.STEPS[0], ["ours fp32"])] == ["ours fp32"]
