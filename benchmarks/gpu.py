"""`make gpu-check`: the GPU's figures and transformers', in one run: a table, a file in `results/`, JSON last.

The model has the shape of Qwen2.5-Coder-1.5B and random weights; 4,096 tokens of context.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import date
from math import prod
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.table import show
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Dense, Full, LayerSpec, Rope
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.gpu.device import BF16, INT8, MIB, GpuFormat
from model_runtime.decoder.tensors import as_array, as_tensor
from model_runtime.ids import Ids
from model_runtime.kv.layout import FP32, arena_bytes
from model_runtime.machine import cuda_missing, roomiest_gpu

ATTENTION = Full(heads=12, kv_heads=2, head_dim=128, rope=Rope(1e6), qkv_bias=True)
MLP = Dense(intermediate=8960)
SHAPE = ModelConfig(
    family="qwen2",
    vocab=151_936,
    hidden=1536,
    layers=(LayerSpec(ATTENTION, MLP),) * 28,
    norm_eps=1e-6,
    context=8192,
    tied=True,
    end_ids=(),
)
CONTEXT, ARENAS, ROOM = 4096, 9, 256  # tokens; arenas; tokens behind the context
KEYSTROKES, STEPS, ROUNDS, PREFILLS = 200, 64, 5, 7
COMPARED, BEFORE = 128, 512  # greedy tokens that are compared, and tokens of their prompt
COPIED = 4 << 30  # bytes
RESULTS = Path(__file__).with_name("results")
TOKENS = np.random.default_rng(0).integers(0, SHAPE.vocab, CONTEXT + ROOM).astype(np.int32)

WAYS: dict[str, GpuFormat] = {"own": "bf16", "own_int8": "int8"}

Pass = Callable[[Ids, int], int]  # tokens behind a number of first tokens; the likeliest next token


def main() -> int:
    """Measure and write down; 2 where there is no GPU."""
    if reason := cuda_missing():
        print(f"no GPU to check: {reason}", file=sys.stderr)
        return 2
    torch.cuda.set_device(roomiest_gpu())
    results = measure()
    show("1.5B parameters, 4,096 tokens of context", ("figure", "value"), results.items())
    name = re.sub(r"\W+", "-", results["device"]).lower()
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(results)
    (RESULTS / f"gpu-{name}-{results['date']}.json").write_text(
        json.dumps(results, indent=1) + "\n", encoding="utf-8"
    )
    print(text)
    return 0


@torch.no_grad()
def measure() -> dict[str, Any]:
    """Milliseconds are medians of walls, the likeliest token fetched, unless they say p95."""
    weights = random_weights()
    bandwidth = copied_per_second()
    results: dict[str, Any] = {
        "date": date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "copy_gb_s": bandwidth / 1e9,
    }
    ways = dict[str, Pass]()
    for name, form in WAYS.items():
        ways[name], more = own(name, weights, form)
        step = needed_bytes(form) / bandwidth * 1e3
        results |= figures(name, ways[name]) | more | {f"{name}_least_decode_ms": step}
        results[f"{name}_share_of_bandwidth"] = step / results[f"{name}_decode_ms"]
    for kind in ("sdpa", "eager"):
        results |= figures(f"transformers_{kind}", reference(weights, torch.bfloat16, kind))
    return results | compared(ways, weights)


def random_weights() -> Weights:
    """Weights in the host's memory, drawn as models are before training."""
    generator = torch.Generator("cuda").manual_seed(0)

    def drawn(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if "norm" in name:
            return torch.ones(shape, device="cuda", dtype=torch.bfloat16)
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=generator) * 0.02

    return {name: as_array(drawn(name, shape)) for name, shape in expected_shapes(SHAPE).items()}


def needed_bytes(form: GpuFormat) -> int:
    """What a decode step cannot but read: weights once, the keys and values of the context once."""
    weights = sum(prod(shape) for shape in expected_shapes(SHAPE).values())
    element = INT8 if form == "int8" else BF16
    return element * weights + arena_bytes(SHAPE, CONTEXT) // FP32 * BF16


def copied_per_second() -> float:
    """Bytes that the device reads and writes in a second, in large copies."""
    source = torch.ones(COPIED // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return COPIED / (median(timed(lambda: target.copy_(source), 20)) / 1e3)


def timed(run: Callable[[], object], repeats: int) -> list[float]:
    """Milliseconds of each repeat; the device has nothing else to do."""
    run()
    times = list[float]()
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((perf_counter() - began) * 1e3)
    return times


def figures(name: str, forward: Pass) -> dict[str, float]:
    """The three figures that are asked for of one way to compute."""
    forward(TOKENS[:CONTEXT], 0)
    keystrokes = timed(lambda: forward(TOKENS[CONTEXT - 1 : CONTEXT], CONTEXT - 1), KEYSTROKES)

    def decode() -> None:
        token = int(TOKENS[CONTEXT])
        for at in range(CONTEXT, CONTEXT + STEPS):
            token = forward(np.array([token], dtype=np.int32), at)

    steps = [each / STEPS for each in timed(decode, ROUNDS)]
    prefills = timed(lambda: forward(TOKENS[:CONTEXT], 0), PREFILLS)
    return {
        f"{name}_keystroke_ms": median(keystrokes),
        f"{name}_keystroke_p95_ms": quantiles(keystrokes, n=20)[-1],
        f"{name}_decode_ms": median(steps),
        f"{name}_prefill_ms": median(prefills),
    }


def own(name: str, weights: Weights, form: GpuFormat) -> tuple[Pass, dict[str, float]]:
    """Passes of the GPU's decoder, and what only it has: several rows, several arenas."""
    from model_runtime.decoder.gpu.decoder import GpuDecoder
    from model_runtime.decoder.gpu.load import load_on_gpu
    from model_runtime.decoder.gpu.slab import WIDTHS

    began, before = perf_counter(), torch.cuda.memory_allocated()
    runtime = load_on_gpu(SHAPE, weights, CONTEXT + ROOM, ARENAS, form, torch.cuda.current_device())
    taken = (torch.cuda.memory_allocated() - before) / MIB
    more = {f"{name}_load_s": perf_counter() - began, f"{name}_mib": taken}
    decoder, arenas = runtime.decoder, [runtime.arena() for _ in range(ARENAS)]
    assert isinstance(decoder, GpuDecoder)

    def forward(ids: Ids, at: int) -> int:
        arenas[0].truncate(at)
        logits, top = decoder.forward(ids, arenas[0]), decoder.top_tokens
        return int(top[0].ids[0] if top else logits[0].argmax())

    forward(TOKENS[:CONTEXT], 0)
    for rows in WIDTHS:
        more[f"{name}_{rows}_rows_ms"] = median(timed(lambda n=rows: forward(TOKENS[CONTEXT:][:n], CONTEXT), 50))
    for arena in arenas[1:]:
        arena.copy_prefix(arenas[0], CONTEXT)

    def step() -> None:
        for arena in arenas[1:]:
            arena.truncate(CONTEXT)
        decoder.forward_spans([Span(TOKENS[CONTEXT : CONTEXT + 1], arena) for arena in arenas[1:]]).argmax(1).cpu()

    more[f"{name}_{ARENAS - 1}_arenas_ms"] = median(timed(step, 50))
    return forward, more


def reference(weights: Weights, dtype: torch.dtype, attention: str) -> Pass:
    """Passes of transformers' model of the same weights, not compiled."""
    from transformers import AutoModelForCausalLM, DynamicCache, Qwen2Config

    config = Qwen2Config(
        vocab_size=SHAPE.vocab,
        hidden_size=SHAPE.hidden,
        num_hidden_layers=len(SHAPE.layers),
        num_attention_heads=ATTENTION.heads,
        num_key_value_heads=ATTENTION.kv_heads,
        intermediate_size=MLP.intermediate,
        max_position_embeddings=SHAPE.context,
        rms_norm_eps=SHAPE.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": ATTENTION.rope.theta},
        tie_word_embeddings=SHAPE.tied,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention).eval()
    unknown = model.load_state_dict(
        {name: as_tensor(each) for name, each in weights.items()}, strict=False
    ).unexpected_keys
    assert not unknown, unknown
    cache = DynamicCache()

    def forward(ids: Ids, at: int) -> int:
        nonlocal cache
        if not at:
            cache = DynamicCache()
        elif cache.get_seq_length() > at:
            cache.crop(at - cache.get_seq_length())
        given = torch.as_tensor(ids, device="cuda").long()[None]
        return int(model(given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1].argmax())

    return forward


def compared(ways: dict[str, Pass], weights: Weights) -> dict[str, float]:
    """The share of greedy tokens that equal fp32's, each behind fp32's own tokens."""
    exact = reference(weights, torch.float32, "sdpa")
    rows = [exact(TOKENS[:BEFORE], 0)]
    for at in range(BEFORE, BEFORE + COMPARED - 1):
        rows.append(exact(np.array(rows[-1:], dtype=np.int32), at))

    def share(forward: Pass) -> float:
        alone = [forward(TOKENS[:BEFORE], 0)]
        alone += [forward(np.array([row], dtype=np.int32), BEFORE + i) for i, row in enumerate(rows[:-1])]
        return sum(one == other for one, other in zip(alone, rows, strict=True)) / len(rows)

    ways = ways | {"transformers": reference(weights, torch.bfloat16, "sdpa")}
    return {f"{name}_equal_tokens": share(forward) for name, forward in ways.items()}


if __name__ == "__main__":
    sys.exit(main())
