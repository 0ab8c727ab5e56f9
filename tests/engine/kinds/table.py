"""`python -m tests.engine.kinds.table`: how far logits of each kind of model are from others', decoder by decoder.

Random weights of 16 bits in small shapes, one text in passes of random widths, and the largest difference of a logit
as a share of the largest logit: from transformers' in fp32, or for int8 from torch's with weights that are rounded
alike. A decoder that does not compute a kind says why.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from efim_lab.gate.evaluation.figures import markdown
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import Fp32, Weights, read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.gpu.attention import choose_attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.device import gpu_unfit
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.decoder.streams import torch_decoder
from model_runtime.kv.arena import Arena, DenseArena
from tests.engine.decoder.test_decoder import SHAPES
from tests.engine.decoder.test_native import distance, in_passes, stored
from tests.engine.gpu.test_gpu_decoder import at_one_place
from tests.models import VOCABULARY, Tiny, make, reference

TOKENS = torch.randint(0, VOCABULARY, (150,), generator=torch.Generator().manual_seed(0)).numpy().astype("int32")
LONGEST = 40  # tokens of a pass
HEADER = ["kind", "family", "torch", "compiled, fp16", "compiled, int8", "the GPU's code, on the CPU"]


def main() -> None:
    """Print the table."""
    transformers_logging.disable_progress_bar()
    rows = [HEADER]
    for kind, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append([kind, shape.family, *_of_kind(make(Path(folder), shape, half=True), shape)])
    print(markdown.table(rows))


def _of_kind(folder: Path, shape: Tiny) -> Iterator[str]:
    config = read_config(folder)
    weights = read_weights(folder, config)
    with torch.inference_mode():
        wanted = reference(folder)(torch.from_numpy(TOKENS).long()[None], use_cache=False).logits[0].numpy()
    yield _found(torch_decoder(config, weights, "fp32"), DenseArena(config, len(TOKENS)), wanted)
    if missing := native_missing(config):
        yield from (missing, missing)
    else:
        yield _found(NativeDecoder(config, weights, "fp16", 1), DenseArena(config, len(TOKENS)), wanted)
        yield _found(
            NativeDecoder(config, weights, "int8", 1), DenseArena(config, len(TOKENS)), _rounded(config, weights)
        )
    if missing := gpu_unfit(config):
        yield missing
    else:
        slab = Slab(config, shape.context, 1, torch.float32, torch.device("cpu"))
        attend = choose_attention(slab, config.full.heads).attend  # pyright: ignore[reportOptionalMemberAccess]
        yield _found(GpuDecoder(config, weights, slab, attend, Kernels(), at_one_place, "bf16"), slab.arena(), wanted)


def _rounded(config: ModelConfig, weights: Weights) -> Fp32:
    """Return the logits that torch computes of weights rounded as int8's are."""
    decoder = torch_decoder(*stored(config, weights, "int8"), "fp32")
    return decoder.forward(TOKENS, DenseArena(config, len(TOKENS)), len(TOKENS)).numpy()


def _found(decoder: AnyDecoder, arena: Arena, wanted: Fp32) -> str:
    return f"{distance(in_passes(decoder, arena, TOKENS, LONGEST, seed=0), wanted):.0e}"


if __name__ == "__main__":
    main()
