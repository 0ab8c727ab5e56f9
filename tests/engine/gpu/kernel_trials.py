"""Runs xformers' own split kernel on the CPU, in Triton's interpreter, chosen before Triton is imported.

`python -m tests.engine.gpu.kernel_trials` ends with 0 if the kernel computes what torch does, through the functions
that a GPU's decoder calls.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.gpu.attention import (
    attend_materialized,
    attend_with,
    bias_of_rows,
    single_rows_split,
    split_operator,
    update_bias,
    why_not,
)
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.kv.arena import DenseArena
from tests.engine.gpu.loading import unrecorded
from tests.models import VOCABULARY, Tiny, make

TOTAL, LONGEST = 640, 256
# First slab row and length of each row's keys: one key, some in the middle, all that a slot has, up to the slab's
# end, a spare row's one key there, and neighbours that overlap.
PLACES = [(0, 1), (100, 200), (TOTAL - LONGEST, LONGEST), (TOTAL - 64, 64), (TOTAL - 1, 1), (101, 65), (100, 64)]
# head_dim, heads, key heads, rows
CASES = [(16, 4, 2, 7), (64, 6, 1, 3), (128, 12, 2, 2), (64, 3, 3, 1), (32, 8, 1, 4)]
CLOSE_HALF, CLOSE = 1e-3, 1e-4  # fp16 rounds weights and results; fp32 costs the order of sums
CONTEXT = 100


def main() -> int:
    """Compare and say by how much the kernel differs."""
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # asked for, to choose sizes of tiles
    for case in CASES:
        off = error_of(*case, seed=sum(case))
        print(f"head_dim {case[0]}, heads {case[1]} over {case[2]}, rows {case[3]}: {off:.1e}")
        assert off <= CLOSE_HALF, case
    with tempfile.TemporaryDirectory() as folder:
        config = read_config(make(Path(folder), Tiny("qwen2", layers=1, context=CONTEXT, seed=3)))
        print(f"a decoder: {decoder_error(Path(folder), config):.1e}")
    return 0


def error_of(dim: int, heads: int, kv_heads: int, rows: int, seed: int) -> float:
    """The largest error of a pass whose places only tensors know, after another one with the same bias."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(rows, heads, dim, generator=generator).half()
    k, v = (torch.randn(TOTAL, kv_heads, dim, generator=generator).half() for _ in range(2))
    starts = torch.full((rows + 1,), TOTAL, dtype=torch.int32)
    lengths = torch.ones(rows, dtype=torch.int32)
    bias = bias_of_rows(starts, lengths, LONGEST, TOTAL)
    operator = split_operator(rows, kv_heads, LONGEST)
    assert operator.SPLIT_K > 1, "keys are split"
    order = np.random.default_rng(seed).permutation(len(PLACES))[:rows]
    firsts, ends = (np.array(column, dtype=np.int32) for column in zip(*(PLACES[i] for i in order), strict=True))
    starts[:-1], lengths[:] = torch.as_tensor(firsts), torch.as_tensor(ends)
    found = attend_with(operator, q, k, v, bias, dim**-0.5)
    update_bias(bias, firsts, ends)
    expected = attend_materialized(q.float(), k.float(), v.float(), bias, dim**-0.5)
    return float((found.float() - expected).abs().max())


def decoder_error(folder: Path, config: ModelConfig) -> float:
    """The largest error of logits in fp32: a wide pass by torch, then single rows and a draft's by the kernel."""
    slab, weights = Slab(config, CONTEXT, 2, torch.float32, torch.device("cpu")), read_weights(folder, config)
    attend = single_rows_split(attend_materialized)
    assert why_not(attend, slab, config.full.heads, (1, 4)) is None, "it is found to run, as on a GPU"
    decoder = GpuDecoder(config, weights, slab, attend, Kernels(), unrecorded)
    cpu, arenas = Decoder(config, weights, "fp32"), [slab.arena(), slab.arena()]
    others, worst = [DenseArena(config, CONTEXT) for _ in arenas], 0.0
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
    for spans in [[(0, 70, 1), (1, 66, 1)], [(0, 1, 1)], [(1, 3, 3)], [(0, 1, 1), (1, 1, 1)], [(1, 30, 1)]]:
        found, expected = (
            model.forward_spans([Span(tokens[given[i].length :][:n], given[i], rows) for i, n, rows in spans])
            for model, given in ((decoder, arenas), (cpu, others))
        )
        worst = max(worst, float((found - expected).abs().max()))
    assert arenas[1].length == CONTEXT, "up to the slab's end"
    assert worst <= CLOSE, worst
    return worst


if __name__ == "__main__":
    sys.exit(main())
