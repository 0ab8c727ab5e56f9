"""Weights in groups with a scale each: the numbers of others, and for a row the same bits in any company."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import Fp32, as_fp32, read_weights
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.native.decoder import MOST_ROWS, NativeDecoder
from model_runtime.decoder.native.library import instruction_sets
from model_runtime.decoder.quantization import GROUP, GROUP_BITS
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.layout import LANES
from tests.compiled import require_compiled
from tests.engine.decoder.packed.grouping import grouped
from tests.engine.doubles import fetched
from tests.models import VOCABULARY, Tiny, make

Form = Literal["int8_groups", "int4"]
FORMS: tuple[Form, ...] = ("int8_groups", "int4")
CONTEXT = 150  # more than two passes, and no multiple of 16
# Of the largest logit, in half of the rows: activations are rounded to 1/127 of their group's largest. Of a row whose
# experts are others all is different.
CLOSE = 0.03
SHAPES = {
    "llama": Tiny(context=CONTEXT),
    "qwen2, widths that fill no groups": Tiny("qwen2", hidden=44, intermediate=52, context=CONTEXT, seed=1),
    "one key head for five": Tiny(
        tied=False, hidden=60, heads=5, kv_heads=1, head_dim=64, intermediate=100, context=CONTEXT, seed=2
    ),
    "mixtral": Tiny("mixtral", context=CONTEXT, seed=3),
    "deepseek_v2": Tiny("deepseek_v2", context=CONTEXT, seed=4),
}
HEADS = ("lm_head.weight",)
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
WIDTHS = (*range(1, 20), MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1, CONTEXT)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    require_compiled()


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), SHAPES[request.param], half=True)


def rounded(weight: Fp32, bits: int) -> Fp32:
    """A matrix as its groups' whole numbers and scales have it."""
    columns = weight.shape[1]
    wide = np.pad(weight, ((0, 0), (0, -columns % GROUP)))
    whole, scale = grouped(wide, bits)
    return (whole * np.repeat(scale.astype(np.float32), GROUP, 1))[:, :columns]


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("form", FORMS)
def test_passes_of_every_width_give_the_same_bits(folder: Path, form: Form, instructions: str) -> None:
    config = read_config(folder)
    decoder = NativeDecoder(config, read_weights(folder, config), form, 2, instructions)
    arena = DenseArena(config, CONTEXT)
    alone = np.concatenate([fetched(decoder.forward(TOKENS[at : at + 1], arena)) for at in range(CONTEXT)])
    for width in WIDTHS:
        together = DenseArena(config, CONTEXT)
        assert np.array_equal(decoder.forward(TOKENS[:width], together, width), alone[:width])
        for mine, theirs in zip(together.planes, arena.planes, strict=True):
            assert np.array_equal(mine[:, :, :width], theirs[:, :, :width])


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("form", FORMS)
def test_logits_are_torchs_of_weights_rounded_alike(folder: Path, form: Form, instructions: str) -> None:
    config = read_config(folder)
    weights = {name: as_fp32(tensor).copy() for name, tensor in read_weights(folder, config).items()}
    if config.family in ("mixtral", "deepseek_v2"):  # whose matrices are cut in other places
        wanted, close = NativeDecoder(config, weights, "fp16", 1), CLOSE if form == "int8_groups" else 10 * CLOSE
    else:
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
        kept = {"model.embed_tokens.weight"}
        if (
            form == "int4" and not config.hidden % LANES
        ):  # those near the highest logit; without whole lanes it has 8 bits
            kept.add("lm_head.weight")
        same = {
            name: tensor
            if tensor.ndim == 1 or name in kept
            else rounded(tensor, 8 if name in HEADS else GROUP_BITS[form])
            for name, tensor in weights.items()
        }
        wanted, close = Decoder(config, same, "fp32"), CLOSE
    found = NativeDecoder(config, weights, form, 1, instructions)
    mine, theirs = (fetched(each.forward(TOKENS, DenseArena(config, CONTEXT), CONTEXT)) for each in (found, wanted))
    near = theirs > theirs.max(1, keepdims=True) - 7  # those that 4 bits have as well as the weights are stored
    off = np.where(near, np.abs(mine - theirs), 0).max(1)
    assert np.median(off) <= close * np.abs(theirs).max()
