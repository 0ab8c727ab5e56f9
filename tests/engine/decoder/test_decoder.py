"""The decoder against transformers' models, and against itself with its weights packed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.families.layer_spec import Dense
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import as_fp32, read_weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from tests.engine.doubles import decoder_of
from tests.engine.kinds.shapes import KINDS
from tests.models import VOCABULARY, Tiny, config, make, reference, shard

transformers_logging.disable_progress_bar()

CONTEXT = 320
ALONE = 40  # tokens that are computed one by one
CLOSE = 2e-4  # 1.1e-4 was seen, of several streams
SHAPES = {
    "llama, tied": Tiny(context=CONTEXT),
    "llama, separate head": Tiny(tied=False, layers=3, theta=500_000.0, context=CONTEXT, seed=1),
    "llama, a key head for each query head": Tiny(heads=3, kv_heads=3, head_dim=10, context=CONTEXT, seed=2),
    "qwen2, tied": Tiny(family="qwen2", theta=1_000_000.0, context=CONTEXT, seed=3),
    "qwen2, one key head": Tiny("qwen2", tied=False, kv_heads=1, head_dim=8, context=CONTEXT, seed=4),
    "qwen3": Tiny("qwen3", tied=False, theta=1_000_000.0, context=CONTEXT, seed=5),
    "mistral": Tiny("mistral", tied=False, theta=1_000_000.0, context=CONTEXT, seed=6),
    "starcoder2": Tiny("starcoder2", head_dim=12, theta=100_000.0, context=CONTEXT, seed=7),
    "gemma": Tiny("gemma", kv_heads=1, context=CONTEXT, seed=8),
    "granite": Tiny("granite", head_dim=12, context=CONTEXT, seed=9),
    "efim": Tiny("efim", heads=3, kv_heads=1, context=CONTEXT, seed=15),
    "efim, two key heads": Tiny("efim", layers=3, context=CONTEXT, seed=16),
    "mistral, all slide": Tiny("mistral", window=40, context=CONTEXT, seed=17),
    "starcoder2, all slide": Tiny("starcoder2", window=33, context=CONTEXT, seed=18),
    "qwen2, upper layers slide": Tiny("qwen2", layers=3, window=50, context=CONTEXT, seed=19),
    **{name: replace(shape, context=CONTEXT) for name, shape in KINDS.items()},
    "llama, linear": Tiny(scaling="linear", context=CONTEXT, seed=10),
    "llama, dynamic": Tiny(scaling="dynamic", context=CONTEXT, seed=11),
    "llama, llama3": Tiny(scaling="llama3", theta=500_000.0, context=CONTEXT, seed=12),
    "qwen2, yarn": Tiny("qwen2", scaling="yarn", theta=1_000_000.0, context=CONTEXT, seed=13),
    "qwen3, yarn": Tiny("qwen3", scaling="yarn", theta=10_000.0, context=CONTEXT, seed=14),
}
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
PACKED = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="no FBGEMM on this CPU"
)


class Model:
    """One checkpoint, read by us and by transformers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, read_config(folder)
        self._reference = reference(folder)
        self._logits = dict[bytes, torch.Tensor]()

    def decoder(self, form: Format = "fp32") -> Decoder:
        return decoder_of(self.folder, form)

    def arena(self) -> Arena:
        return DenseArena(self.config, self.config.context)

    @torch.inference_mode()
    def reference(self, ids: Ids) -> torch.Tensor:
        """Logits [len(ids), vocab] by transformers, without a cache; computed once for the tests of the model."""
        key = ids.tobytes()
        if key not in self._logits:
            self._logits[key] = self._reference(torch.from_numpy(ids).long()[None], use_cache=False).logits[0]
        return self._logits[key]


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(make(tmp_path_factory.mktemp("model"), SHAPES[request.param]))


@pytest.fixture
def attending(model: Model) -> Iterator[Model]:
    """A model none of whose layers has a state, which tokens that are computed again would be taken into twice."""
    if model.config.states:
        pytest.skip("layers have states")
    yield model


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model whose weights are stored in 16 bits, as published ones are."""
    shape = SHAPES["qwen2, tied"]
    return Model(make(tmp_path_factory.mktemp("half"), shape, half=True))


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


def chunks(length: int, longest: int, seed: int) -> Iterator[int]:
    """Random sizes from 1 to `longest` that add up to a length."""
    generator = random.Random(seed)
    while length:
        size = generator.randint(1, min(longest, length))
        yield size
        length -= size


def last(decoder: Decoder, arena: Arena, ids: Ids) -> torch.Tensor:
    """Append tokens; the logits [vocab] that follow them."""
    logits = decoder.forward(ids, arena)
    assert logits.shape == (1, decoder.config.vocab)
    return logits[0]


def in_chunks(decoder: Decoder, arena: Arena, ids: Ids, sizes: Iterator[int]) -> dict[int, torch.Tensor]:
    """Append tokens chunk by chunk; the logits after each chunk by the position of its last token."""
    logits: dict[int, torch.Tensor] = {}
    for size in sizes:
        at = arena.length
        logits[at + size - 1] = last(decoder, arena, ids[at : at + size])
    assert arena.length == len(ids)
    return logits


def in_rows(decoder: Decoder, arena: Arena, before: int, new: int, rows: int) -> torch.Tensor:
    """The logits [rows, vocab] of the last rows of one pass over `new` tokens, after `before` others."""
    if before:
        decoder.forward(TOKENS[:before], arena)
    logits = decoder.forward(TOKENS[before : before + new], arena, rows)
    assert arena.ids.tolist() == TOKENS[: before + new].tolist()
    return logits


def in_steps(decoder: Decoder, arena: Arena, before: int, steps: int) -> torch.Tensor:
    """The logits [steps, vocab] after each of so many tokens, one pass for each."""
    if before:
        decoder.forward(TOKENS[:before], arena)
    return torch.stack([last(decoder, arena, TOKENS[n : n + 1]) for n in range(before, before + steps)])


def assert_close(found: dict[int, torch.Tensor], reference: torch.Tensor, tolerance: float = CLOSE) -> None:
    rows = sorted(found)
    assert distance(torch.stack([found[row] for row in rows]), reference[rows]) <= tolerance


def test_the_tiny_models_spread_their_logits_and_attend_to_more_than_the_last_token(model: Model) -> None:
    reference = model.reference(TOKENS)
    other = TOKENS.copy()
    other[0] = (other[0] + 1) % VOCABULARY
    assert reference.std() > 1
    assert distance(model.reference(other)[8], reference[8]) > 100 * CLOSE


def test_one_pass_without_a_cache_equals_transformers(model: Model) -> None:
    reference = model.reference(TOKENS)
    for length in (1, 2, 17, CONTEXT):
        logits = last(model.decoder(), model.arena(), TOKENS[:length])
        assert distance(logits, reference[length - 1]) <= CLOSE


def test_token_by_token_up_to_the_end_of_the_context_equals_transformers(model: Model) -> None:
    logits = in_chunks(model.decoder(), model.arena(), TOKENS, iter([CONTEXT - ALONE] + [1] * ALONE))
    assert_close(logits, model.reference(TOKENS))


@pytest.mark.parametrize("seed", range(2))
def test_chunks_of_any_size_equal_transformers(model: Model, seed: int) -> None:
    logits = in_chunks(model.decoder(), model.arena(), TOKENS, chunks(CONTEXT, 90, seed))
    assert_close(logits, model.reference(TOKENS))


@pytest.mark.parametrize(("before", "new", "rows"), [(0, 1, 1), (0, 9, 9), (40, 16, 16), (40, 64, 5), (311, 9, 3)])
def test_each_of_the_last_rows_equals_transformers_and_a_step_of_its_own(
    model: Model, before: int, new: int, rows: int
) -> None:
    found = in_rows(model.decoder(), model.arena(), before, new, rows)
    end = before + new
    assert distance(found, model.reference(TOKENS[:end])[end - rows :]) <= CLOSE
    assert distance(found, in_steps(model.decoder(), model.arena(), end - rows, rows)) <= CLOSE


@PACKED
@pytest.mark.parametrize(("before", "new", "rows"), [(0, 9, 9), (40, 16, 16), (40, 64, 5)])
def test_each_of_the_last_rows_of_a_packed_model_equals_a_step_of_its_own(
    half: Model, before: int, new: int, rows: int
) -> None:
    decoder, end = half.decoder("fp16"), before + new
    found = in_rows(decoder, half.arena(), before, new, rows)
    assert distance(found, in_steps(decoder, half.arena(), end - rows, rows)) <= 1e-3
    reference = half.reference(TOKENS[:end])[end - rows :]
    assert distance(found, reference) <= CLOSE * float(reference.abs().max())


@pytest.mark.parametrize("form", ["fp32", pytest.param("fp16", marks=PACKED)])
def test_spans_of_several_arenas_in_one_pass_are_each_of_them_alone(model: Model, form: Format) -> None:
    decoder, alone = model.decoder(form), []
    together, apart = ([model.arena() for _ in range(3)] for _ in range(2))
    for before, arena, other in zip((40, 0, 199), together, apart, strict=True):
        if before:
            decoder.forward(TOKENS[:before], arena)
            other.copy_prefix(arena, before)
    wanted = [(TOKENS[40:104], 5), (TOKENS[7:8], 1), (TOKENS[150:159], 9)]
    for (ids, rows), arena in zip(wanted, apart, strict=True):
        alone.append(decoder.forward(ids, arena, rows))
    found = decoder.forward_spans(
        [Span(ids, arena, rows) for (ids, rows), arena in zip(wanted, together, strict=True)]
    )
    assert distance(found, torch.cat(alone)) <= CLOSE
    for arena, other in zip(together, apart, strict=True):
        assert arena.ids.tolist() == other.ids.tolist()
        assert all(np.abs(a - b).max() <= CLOSE for a, b in zip(arena.planes, other.planes, strict=True))


@pytest.mark.parametrize("form", ["fp32", pytest.param("fp16", marks=PACKED)])
def test_tokens_computed_again_in_place_equal_those_of_a_run(attending: Model, form: Format) -> None:
    model = attending
    decoder, arena, whole = model.decoder(form), model.arena(), model.arena()
    at = np.array([0, 3, 4, 5, 90, 198, 199], dtype=np.int32)
    expected = decoder.forward(TOKENS[:200], whole, 2)
    arena.copy_prefix(whole, 200)
    arena.keep_logits(expected[1], 200)
    for plane in arena.planes:
        plane[:, :, at] = np.nan
    assert distance(decoder.forward_spans([Span(TOKENS[at], arena, 2, at)]), expected) <= CLOSE
    assert (arena.length, arena.logits_at) == (200, -1)
    assert all(np.abs(a - b).max() <= CLOSE for a, b in zip(arena.planes, whole.planes, strict=True))


def test_a_draft_that_was_cut_off_leaves_nothing_behind(model: Model) -> None:
    decoder, arena = model.decoder(), model.arena()
    decoder.forward(TOKENS[:20], arena, rows=9)
    kept = arena.truncate(13)
    other = np.concatenate((TOKENS[:13], TOKENS[100:160]))
    assert kept == (12 if model.config.states else 13), "states stand before the draft"
    sizes = iter([1] * 16 + [73 - kept - 16])
    assert_close(in_chunks(decoder, arena, other, sizes), model.reference(other))


@pytest.mark.parametrize("kept", [1, 100, CONTEXT - 1])
def test_other_tokens_after_a_truncation_equal_transformers(model: Model, kept: int) -> None:
    decoder, arena = model.decoder(), model.arena()
    decoder.forward(TOKENS, arena)
    resumed = arena.truncate(kept)
    other = np.concatenate((TOKENS[:kept], TOKENS[kept:][::-1]))
    assert_close(in_chunks(decoder, arena, other, chunks(CONTEXT - resumed, 70, kept)), model.reference(other))


def test_a_copied_prefix_continues_as_transformers_does(model: Model) -> None:
    decoder, arena, copy = model.decoder(), model.arena(), model.arena()
    decoder.forward(TOKENS[:200], arena)
    shared = arena.resumes_at(150)
    copy.copy_prefix(arena, shared)
    other = np.concatenate((TOKENS[:150], TOKENS[:100]))
    assert shared == (128 if model.config.states else 150)
    assert_close(in_chunks(decoder, copy, other, chunks(250 - shared, 40, 0)), model.reference(other))
    assert_close(in_chunks(decoder, arena, TOKENS, chunks(120, 40, 0)), model.reference(TOKENS))


def test_the_decoder_reads_the_weights_and_never_writes_to_them(model: Model) -> None:
    decoder = model.decoder()
    first = decoder.forward(TOKENS, model.arena())
    assert torch.equal(decoder.forward(TOKENS, model.arena()), first)


@PACKED
def test_packing_loses_nothing_of_weights_stored_in_sixteen_bits(half: Model) -> None:
    reference = half.reference(TOKENS)
    logits = in_chunks(half.decoder("fp16"), half.arena(), TOKENS, chunks(CONTEXT, 90, 0))
    assert_close(logits, reference, CLOSE * float(reference.abs().max()))


@PACKED
def test_packing_weights_stored_in_32_bits_costs_their_rounding_only(model: Model) -> None:
    packed = in_chunks(model.decoder("fp16"), model.arena(), TOKENS, chunks(CONTEXT, 90, 0))
    reference = model.reference(TOKENS)
    assert_close(packed, reference, 5e-3 * float(reference.abs().max()))
    rows = sorted(packed)
    assert not torch.equal(torch.stack([packed[row] for row in rows]), reference[rows])


@PACKED
def test_packed_logits_hardly_depend_on_how_the_tokens_arrived(model: Model) -> None:
    decoder, warm = model.decoder("fp16"), model.arena()
    in_chunks(decoder, warm, TOKENS[:200], chunks(200, 64, 1))
    kept = warm.truncate(120)
    other = np.concatenate((TOKENS[:120], TOKENS[:150]))
    logits = in_chunks(decoder, warm, other, chunks(len(other) - kept, 64, 2))[len(other) - 1]
    assert distance(logits, last(decoder, model.arena(), other)) <= 1e-4


@pytest.mark.parametrize("parts", [2, 3])
def test_sharded_weights_load_the_same(tmp_path: Path, parts: int) -> None:
    shape = SHAPES["llama, separate head"]
    whole, sharded = make(tmp_path / "whole", shape), make(tmp_path / "sharded", shape)
    shard(sharded, parts)
    assert not (sharded / "model.safetensors").exists()
    expected, found = (read_weights(folder, read_config(folder)) for folder in (whole, sharded))
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_config_without_the_optional_fields_means_what_transformers_takes_it_for(tmp_path: Path) -> None:
    folder = make(tmp_path, Tiny(heads=3, kv_heads=3, head_dim=16, tied=False))
    raw = config(Tiny(heads=3, kv_heads=3, head_dim=16, tied=False))
    for name in ("num_key_value_heads", "head_dim", "rope_theta", "rms_norm_eps", "tie_word_embeddings"):
        del raw[name]
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    model = Model(folder)
    assert_close({CONTEXT - 1: last(model.decoder(), model.arena(), TOKENS)}, model.reference(TOKENS))


def test_biases_that_a_llama_config_asks_for_are_computed_or_refused(tmp_path: Path) -> None:
    raw: dict[str, Any] = {**config(Tiny()), "attention_bias": True}
    theirs = LlamaForCausalLM(LlamaConfig(**raw))
    for name, parameter in theirs.named_parameters():
        if name.endswith(".bias"):
            torch.nn.init.normal_(parameter)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    try:
        found = last(decoder_of(tmp_path), DenseArena(read_config(tmp_path), CONTEXT), TOKENS)
    except ModelError:
        return
    assert distance(found, Model(tmp_path).reference(TOKENS)[-1]) <= CLOSE


@pytest.mark.parametrize("equal", [False, True])
def test_a_head_of_its_own_counts_beside_a_tied_embedding(equal: bool, tmp_path: Path) -> None:
    """A head was trained or merged after it had been tied; one that is as it was takes no memory."""
    folder = make(tmp_path, Tiny(context=CONTEXT))
    weights = load_file(folder / "model.safetensors")
    table = weights["model.embed_tokens.weight"]
    weights["lm_head.weight"] = table.clone() if equal else table.flip(0)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = Model(folder)
    assert ("lm_head.weight" in read_weights(folder, model.config)) is not equal
    assert distance(last(model.decoder(), model.arena(), TOKENS), model.reference(TOKENS)[-1]) <= CLOSE


def test_layers_may_differ_in_their_feed_forward_part(tmp_path: Path) -> None:
    """A layer that is narrower computes what a wide one does whose other rows are zero."""
    folder, narrow = make(tmp_path, Tiny(layers=2, intermediate=80)), 64
    shape = read_config(folder)
    weights = {name: as_fp32(each).copy() for name, each in read_weights(folder, shape).items()}
    mixed = replace(shape, layers=(shape.alike, replace(shape.alike, mlp=Dense(narrow))))
    cut = dict(weights)
    for name in ("gate_proj", "up_proj"):
        at = f"model.layers.1.mlp.{name}.weight"
        weights[at][narrow:], cut[at] = 0, weights[at][:narrow]
    at = "model.layers.1.mlp.down_proj.weight"
    cut[at] = np.ascontiguousarray(weights[at][:, :narrow])
    assert {name: each.shape for name, each in cut.items()} == expected_shapes(mixed)
    found, expected = (
        Decoder(each, of, "fp32").forward(TOKENS[:40], DenseArena(each, CONTEXT), 40)
        for each, of in ((mixed, cut), (shape, weights))
    )
    assert distance(found, expected) <= CLOSE
