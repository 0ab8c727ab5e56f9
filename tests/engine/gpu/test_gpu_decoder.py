"""The GPU's decoder on the CPU, against transformers and the CPU's own: the same class, with another device."""

from __future__ import annotations

import random
import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import Fp32, Weights, read_weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.gpu.attention import choose_attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.device import BF16, GpuFormat, weight_bytes
from model_runtime.decoder.gpu.graphs import Replay
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.products import FUSED_ROWS, scaled_product
from model_runtime.decoder.gpu.slab import MOST_ELEMENTS, SPARE_ROWS, WIDTHS, Slab, SlabArena, most_slots
from model_runtime.decoder.quantization import quantized
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout
from model_runtime.kv.sequence import Quality
from tests.models import VOCABULARY, Tiny, make
from tests.models import reference as reference_of

transformers_logging.disable_progress_bar()

CONTEXT, ARENAS = 160, 4
NUMBERS = st.integers(0, ARENAS - 1)
CLOSE = 1e-4
ROUGH = 0.02  # of the logits' spread: what bf16 may cost, root mean square
SAME = 0.95  # of the likeliest tokens must be fp32's
SHAPES = {
    "llama, tied": Tiny(context=CONTEXT),
    "llama, a key head for each query head": Tiny(heads=3, kv_heads=3, head_dim=10, context=CONTEXT, seed=2),
    "qwen2, one key head, head of its own": Tiny("qwen2", tied=False, kv_heads=1, context=CONTEXT, seed=4),
    "qwen3": Tiny("qwen3", context=CONTEXT, seed=5),
    "mistral, yarn": Tiny("mistral", tied=False, scaling="yarn", context=CONTEXT, seed=6),
    "starcoder2": Tiny("starcoder2", context=CONTEXT, seed=7),
    "gemma": Tiny("gemma", kv_heads=1, context=CONTEXT, seed=8),
    "granite": Tiny("granite", context=CONTEXT, seed=9),
    "efim": Tiny("efim", heads=3, kv_heads=1, context=CONTEXT, seed=10),
    "mistral, all slide": Tiny("mistral", window=30, context=CONTEXT, seed=11),
    "gemma3": Tiny("gemma3_text", layers=3, context=CONTEXT, seed=12),
    "cohere2": Tiny("cohere2", layers=3, hidden=64, context=CONTEXT, seed=13),
    "qwen2 with experts in some layers": Tiny("qwen2_moe", layers=3, context=CONTEXT, seed=14),
    "granite with experts": Tiny("granitemoe", context=CONTEXT, seed=15),
}
SMALL = re.compile(r"head_gates|router|mlp\.gate\.|expert_gate")  # matrices that a GPU holds in fp32, too
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)


def at_one_place(step: Replay) -> Replay:
    """As a CUDA graph does: what a pass returns lies where what the pass before returned did."""
    place = list[torch.Tensor]()

    def replay() -> torch.Tensor:
        logits = step()
        return place[0].copy_(logits) if place else place.append(logits.clone()) or place[0]

    return replay


class Model:
    """One checkpoint, read by us for either device and by transformers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: ModelConfig = read_config(folder)
        self.weights: Weights = read_weights(folder, self.config)
        self.cpu = Decoder(self.config, self.weights, "fp32")
        self._reference = reference_of(folder)

    def slab(self, dtype: torch.dtype = torch.float32) -> Slab:
        return Slab(self.config, CONTEXT, ARENAS, dtype, torch.device("cpu"))

    def decoder(self, slab: Slab, form: GpuFormat = "bf16") -> GpuDecoder:
        attend = choose_attention(slab, self.config.full.heads).attend
        return GpuDecoder(self.config, self.weights, slab, attend, Kernels(), at_one_place, form)

    def arena(self) -> Arena:
        return DenseArena(self.config, CONTEXT)

    @torch.inference_mode()
    def reference(self, ids: Ids) -> torch.Tensor:
        return self._reference(torch.from_numpy(ids).long()[None], use_cache=False).logits[0]


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(make(tmp_path_factory.mktemp("model"), SHAPES[request.param]))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(make(tmp_path_factory.mktemp("one"), Tiny("qwen2", context=CONTEXT, seed=3), half=True))


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


def in_chunks(decoder: GpuDecoder, arena: SlabArena, ids: Ids, longest: int, seed: int) -> torch.Tensor:
    """Append tokens in chunks of random size; the logits after every one of them."""
    generator, logits = random.Random(seed), list[torch.Tensor]()
    while (start := arena.length) < len(ids):
        chunk = ids[start : start + generator.randint(1, longest)]
        logits.append(decoder.forward(chunk, arena, len(chunk)))
    return torch.cat(logits)


@pytest.mark.parametrize("longest", [1, 5, WIDTHS[-1], CONTEXT])
def test_chunks_of_any_size_equal_transformers(model: Model, longest: int) -> None:
    """Narrow passes are recorded ones, the others are not."""
    slab = model.slab()
    found = in_chunks(model.decoder(slab), slab.arena(), TOKENS, longest, longest)
    assert distance(found, model.reference(TOKENS)) <= CLOSE


@pytest.mark.parametrize(("new", "rows"), [(1, 1), (3, 2), (64, 1), (65, 65), (120, 7)])
def test_the_last_rows_equal_the_cpus(model: Model, new: int, rows: int) -> None:
    slab, arena = model.slab(), model.arena()
    decoder, other = model.decoder(slab), slab.arena()
    for ids in (TOKENS[:30], TOKENS[30 : 30 + new]):
        expected = model.cpu.forward(ids, arena, min(rows, len(ids)))
        assert distance(decoder.forward(ids, other, min(rows, len(ids))), expected) <= CLOSE
    assert other.ids.tolist() == arena.ids.tolist()
    for mine, theirs in zip(other.planes, arena.planes, strict=True):
        assert distance(mine[:, :, : other.length], torch.from_numpy(theirs[:, :, : other.length])) <= CLOSE


@pytest.mark.parametrize("count", [1, 9, 80])
def test_tokens_computed_again_in_place_equal_those_of_a_run(model: Model, count: int) -> None:
    slab = model.slab()
    decoder, arena, whole = model.decoder(slab), slab.arena(), slab.arena()
    at = np.sort(np.random.default_rng(count).choice(120, count, replace=False)).astype(np.int32)
    expected = decoder.forward(TOKENS[:120], whole, 120)[at]
    arena.copy_prefix(whole, 120)
    for plane in arena.planes:
        plane[:, :, at] = torch.nan
    assert distance(decoder.forward_spans([Span(TOKENS[at], arena, count, at)]), expected) <= CLOSE
    assert arena.length == 120
    assert all(distance(*pair) <= CLOSE for pair in zip(arena.planes, whole.planes, strict=True))


@settings(max_examples=25)
@given(data=st.data())
def test_whatever_happens_to_several_arenas_they_equal_the_cpus(one: Model, data: st.DataObject) -> None:
    slab = one.slab()
    decoder = one.decoder(slab)
    pairs = [(slab.arena(), one.arena()) for _ in range(ARENAS)]
    for _ in range(data.draw(st.integers(1, 6))):
        # Numbers: what is drawn from stays in Hypothesis' caches.
        chosen = [pairs[i] for i in data.draw(st.lists(NUMBERS, min_size=1, max_size=ARENAS, unique=True))]
        mine, theirs = list[Span](), list[Span]()
        for arena, other in chosen:
            kept = data.draw(st.integers(0, arena.length))
            ids = TOKENS[kept:][: data.draw(st.integers(1, 40))]
            if not len(ids):
                continue
            rows = data.draw(st.integers(1, len(ids)))
            for each in (arena, other):
                each.truncate(kept)
            mine.append(Span(ids, arena, rows))
            theirs.append(Span(ids, other, rows))
        if mine:
            assert distance(decoder.forward_spans(mine), one.cpu.forward_spans(theirs)) <= CLOSE
        (source, its), (target, other) = (pairs[i] for i in data.draw(st.permutations(range(ARENAS)))[:2])
        length = data.draw(st.integers(0, source.length))
        target.copy_prefix(source, length)
        other.copy_prefix(its, length)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_come_back_as_they_were(one: Model, dtype: torch.dtype) -> None:
    slab = one.slab(dtype)
    decoder, first, second = one.decoder(slab), slab.arena(), slab.arena()
    decoder.forward(TOKENS[:70], first)
    for start in (0, 16, 32, 48):
        blocks = first.copy_out(start, start + 16)
        assert [each.dtype for each in blocks] == 2 * [np.float32]
        second.copy_in(TOKENS[start : start + 16], blocks, Quality.EXACT if start < 32 else Quality.LOSSY)
    assert second.approximate(64) == 32
    assert torch.equal(second.k[:, :, :64], first.k[:, :, :64]) and torch.equal(
        second.v[:, :, :64], first.v[:, :, :64]
    )
    assert not first.k[:, :, :64].eq(0).all() and second.ids.tolist() == TOKENS[:64].tolist()
    first.truncate(64)
    again, before = (decoder.forward(TOKENS[64:70], arena, 6) for arena in (second, first))
    assert distance(again, before) <= CLOSE  # a CPU's sums depend on where in the slab an arena lies


def test_blocks_of_bf16_come_back_from_a_store_as_they_were(one: Model) -> None:
    slab, config = one.slab(torch.bfloat16), one.config
    first, second = slab.arena(), slab.arena()
    one.decoder(slab).forward(TOKENS[:70], first)
    shape = KvLayout.of(config)
    codec = KvCodec(shape, 16, None, Form.BF16)
    for start in (0, 16, 32, 48):
        data = codec.encode(first.copy_out(start, start + 16), start, Form.BF16)
        assert len(data) == BF16 * first.k[:, :, :16].numel() * 2, "keys and values"
        second.copy_in(TOKENS[start : start + 16], codec.decode(data, start, Form.BF16), Quality.EXACT)
    assert torch.equal(second.k[:, :, :64], first.k[:, :, :64])
    assert torch.equal(second.v[:, :, :64], first.v[:, :, :64])


def test_blocks_are_what_the_cpu_would_keep(one: Model) -> None:
    slab, arena = one.slab(), one.arena()
    other = slab.arena()
    one.decoder(slab).forward(TOKENS[:40], other)
    one.cpu.forward(TOKENS[:40], arena)
    for mine, theirs in zip(other.copy_out(8, 24), arena.copy_out(8, 24), strict=True):
        assert mine.shape == theirs.shape and np.abs(mine - theirs).max() <= CLOSE
    assert all(map(np.array_equal, one.decoder(slab).rotations, one.cpu.rotations))


def test_bf16_stays_close_to_fp32_and_closer_than_transformers(one: Model) -> None:
    slab, reference = one.slab(torch.bfloat16), one.reference(TOKENS)
    found = in_chunks(one.decoder(slab), slab.arena(), TOKENS, 90, 0)
    theirs = AutoModelForCausalLM.from_pretrained(one.folder, dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        other = theirs(torch.from_numpy(TOKENS).long()[None], use_cache=False).logits[0].float()
    assert found.dtype == torch.float32
    assert spread(found - reference) <= min(ROUGH * spread(reference), spread(other - reference))
    assert (found.argmax(1) == reference.argmax(1)).float().mean() >= SAME


# Whole numbers


def rounded(weights: Weights) -> Weights:
    """The numbers that int8 has for every matrix, which are rounded to themselves."""

    def whole(weight: Fp32) -> Fp32:
        numbers, scale = quantized(weight)
        return numbers * scale

    return {name: whole(weight) if weight.ndim == 2 else weight for name, weight in weights.items()}


@settings(max_examples=60)
@given(
    rows=st.integers(1, 2 * FUSED_ROWS), size=st.integers(1, 40), outputs=st.integers(1, 40), seed=st.integers(0, 99)
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_whole_numbers_are_multiplied_with_as_their_scales_say(
    dtype: torch.dtype, rows: int, size: int, outputs: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=generator).to(dtype)
    numbers = torch.randint(-127, 128, (outputs, size), generator=generator).to(torch.int8)
    scale = torch.rand(outputs, generator=generator) + 0.1
    exact = x.double() @ (numbers * scale[:, None]).double().T
    found = scaled_product(x, numbers, scale, torch.float32)
    assert found.dtype == torch.float32 and torch.allclose(found.double(), exact, atol=1e-3, rtol=1e-5)
    assert torch.equal(scaled_product(x, numbers, scale, dtype), found.to(dtype)), "rounded once"


def int8_and_fp32(model: Model, dtype: torch.dtype, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits in either way, of weights that are whole numbers with a scale."""
    slab, whole = model.slab(dtype), rounded(model.weights)
    attend = choose_attention(slab, model.config.full.heads).attend
    decoder = GpuDecoder(model.config, whole, slab, attend, Kernels(), at_one_place, "int8")
    expected = Decoder(model.config, whole, "fp32").forward(TOKENS, model.arena(), CONTEXT)
    return in_chunks(decoder, slab.arena(), TOKENS, longest, longest), expected


@pytest.mark.parametrize("longest", [1, FUSED_ROWS, CONTEXT])
def test_int8_loses_nothing_but_the_rounding_of_weights(model: Model, longest: int) -> None:
    assert distance(*int8_and_fp32(model, torch.float32, longest)) <= CLOSE


@pytest.mark.parametrize("longest", [FUSED_ROWS, CONTEXT])
def test_int8_in_bf16_stays_close_to_fp32(one: Model, longest: int) -> None:
    found, expected = int8_and_fp32(one, torch.bfloat16, longest)
    assert not torch.equal(found, found.bfloat16().float()), "logits have more digits than bf16"
    assert spread(found - expected) <= ROUGH * spread(expected)
    assert (found.argmax(1) == expected.argmax(1)).float().mean() >= SAME


def held(thing: object) -> dict[int, torch.Tensor]:
    """The tensors of layers and products, by their memory."""
    if isinstance(thing, torch.Tensor):
        return {thing.data_ptr(): thing}
    parts = thing if isinstance(thing, (list, tuple)) else vars(thing).values() if hasattr(thing, "__dict__") else ()
    return {at: tensor for part in parts for at, tensor in held(part).items()}


@pytest.mark.parametrize("form", ["bf16", "int8"])
def test_memory_is_foretold(model: Model, form: GpuFormat) -> None:
    """What is fp32 beside the weights is small in a model that is not."""
    decoder = vars(model.decoder(model.slab(torch.bfloat16), form))
    tensors = held([decoder[name] for name in ("_embed", "_head", "_layers", "_token_values")]).values()
    matrices = [tensor for tensor in tensors if tensor.dtype in (torch.bfloat16, torch.int8)]
    element = 1 if form == "int8" else BF16
    shapes = expected_shapes(model.config)
    vectors = sum(prod(shape) for name, shape in shapes.items() if len(shape) == 1 or SMALL.search(name))
    made = max((tensor.numel() for tensor in matrices if tensor.dtype == torch.int8), default=0) * BF16
    expected = sum(tensor.nbytes for tensor in matrices) + vectors * element + made
    assert weight_bytes(model.config, form) == expected


def spread(logits: torch.Tensor) -> float:
    return float(logits.square().mean().sqrt())


def test_logits_that_were_returned_stay_when_others_are_computed(one: Model) -> None:
    slab = one.slab()
    decoder, arena = one.decoder(slab), slab.arena()
    first = decoder.forward(TOKENS[:3], arena, 2)
    kept = first.clone()
    decoder.forward(TOKENS[3:6], arena, 2)
    assert torch.equal(first, kept)


def test_rows_that_fill_a_pass_up_touch_no_arena(one: Model) -> None:
    slab = one.slab()
    decoder, arenas = one.decoder(slab), [slab.arena() for _ in range(ARENAS)]
    [kind] = slab.kinds
    slab.k[:, : kind.spare], slab.v[:, : kind.spare] = 7.0, 7.0
    decoder.forward(TOKENS[:3], arenas[1])
    [first] = arenas[1].firsts
    touched = (slab.k[0, :, 0, 0] != 7.0).nonzero().flatten().tolist()
    assert [row for row in touched if row < kind.spare] == [first, first + 1, first + 2]
    assert kind.rows - kind.spare == SPARE_ROWS


def test_a_slab_has_as_many_slots_as_it_was_asked_for_and_its_elements_can_be_counted(one: Model) -> None:
    slab = one.slab()
    firsts = [slab.arena().firsts[0] for _ in range(ARENAS)]
    assert firsts == [0, CONTEXT, 2 * CONTEXT, 3 * CONTEXT]
    size = one.config.full.kv_heads * one.config.full.head_dim
    for capacity in (1, CONTEXT, 4096):
        most = most_slots(one.config, capacity)
        assert (most * capacity + SPARE_ROWS) * size <= MOST_ELEMENTS < ((most + 1) * capacity + SPARE_ROWS) * size
