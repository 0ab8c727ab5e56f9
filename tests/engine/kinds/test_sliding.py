"""Layers that slide keep what their window needs: rows beyond it go, and nothing that is computed shows it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_store.block import BLOCK_TOKENS
from model_runtime.checkpoint.config import ModelConfig, UnknownArchitecture, parse_config
from model_runtime.kv.codec import PART, Form, KvCodec
from model_runtime.kv.layout import SLACK_ROWS, KvLayout, arena_bytes
from model_runtime.kv.sequence import Quality
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.windows.rule import KEPT_BEHIND
from tests.engine.doubles import fetched
from tests.engine.kinds.decoded import Decoded
from tests.models import VOCABULARY, Tiny, config, make, reference

WINDOW, CONTEXT = 40, 3 * SLACK_ROWS // 2
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
SHAPES = {
    "mistral": Tiny("mistral", window=WINDOW, hidden=32, heads=2, kv_heads=1, context=CONTEXT),
    "gemma3": Tiny("gemma3_text", hidden=32, heads=2, kv_heads=1, context=CONTEXT, seed=1),
}
CLOSE = 2e-3


@pytest.fixture(scope="module", params=product(SHAPES, ("torch", "compiled")), ids=" ".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    name, way = request.param
    return Decoded(make(tmp_path_factory.mktemp("model"), SHAPES[name]), way)


@pytest.mark.parametrize("step", [64, 1500])
def test_what_lies_beyond_the_window_is_given_up_and_logits_equal_transformers(model: Decoded, step: int) -> None:
    arena = model.computed(TOKENS[: CONTEXT - 9], step)
    with torch.inference_mode():
        theirs = reference(model.folder)(torch.from_numpy(TOKENS).long()[None], use_cache=False).logits[0]
    found = fetched(model.decoder.forward(TOKENS[CONTEXT - 9 :], arena, 9))
    assert arena.base > 0 and arena.length == CONTEXT
    assert np.abs(found - theirs[-9:].numpy()).max() <= CLOSE * float(theirs.abs().max())


@settings(max_examples=8)
@given(
    length=st.integers(SLACK_ROWS - 100, CONTEXT - 2), cut=st.integers(0, CONTEXT), step=st.sampled_from((64, 999))
)
def test_a_cut_arena_goes_on_to_the_same_bits_as_a_new_one(model: Decoded, length: int, cut: int, step: int) -> None:
    arena, cut = model.computed(TOKENS[:length], step), min(cut, length)
    resumed = arena.truncate(cut)
    assert resumed in (cut, 0) and arena.length == resumed
    assert (
        resumed == cut or cut < arena.layout.window + length - SLACK_ROWS + BLOCK_TOKENS or cut < length - KEPT_BEHIND
    )
    warm = model.extended(arena, TOKENS[:cut])
    cold = model.computed(TOKENS[:cut])
    assert model.equal(model.logits(warm), model.logits(cold))


@settings(max_examples=6)
@given(one=st.integers(1, CONTEXT - 2), other=st.integers(1, CONTEXT - 2), share=st.floats(0.7, 1))
def test_a_copied_prefix_is_as_good_as_the_one_it_was_copied_from(
    model: Decoded, one: int, other: int, share: float
) -> None:
    source, mine = model.computed(TOKENS[:one], 640), model.computed(TOKENS[:other], 640)
    mine.truncate(mine.length // 2)
    if held := source.kept(SequenceKey(TOKENS[: int(share * one)])):
        mine.copy_prefix(source, held)
        assert model.equal(model.logits(mine), model.logits(model.computed(TOKENS[:held])))


@pytest.mark.parametrize("form", [Form.RAW, Form.INT8])
@pytest.mark.parametrize("length", [WINDOW + 90, CONTEXT - BLOCK_TOKENS])
def test_blocks_bring_back_what_the_window_needs(model: Decoded, form: Form, length: int) -> None:
    source, mine = model.computed(TOKENS[:length]), model.arena()
    codec = KvCodec(KvLayout.of(model.config), BLOCK_TOKENS, model.decoder.rotations)
    forms = set[int]()
    for start in range(0, length - length % BLOCK_TOKENS, BLOCK_TOKENS):
        rows = source.read(start, start + BLOCK_TOKENS)
        tried, _ = codec.forms_at(rows, start, length, form)
        data = codec.encode(rows, start, tried)
        assert len(data) == codec.size(tried)
        mine.copy_in(TOKENS[start : start + BLOCK_TOKENS], codec.decode(data, start, tried), Quality.EXACT)
        forms.add(tried)
    assert mine.truncate(mine.length) == length // BLOCK_TOKENS * BLOCK_TOKENS, "computing can go on at its end"
    assert any(each >= PART for each in forms) == (source.base > 0)
    assert mine.base == source.base
    wanted = model.logits(model.computed(TOKENS[: mine.length]))
    found = model.logits(mine)
    assert model.equal(found, wanted) if form == Form.RAW else np.abs(found - wanted).max() < 0.5


def test_an_arena_of_which_too_little_came_back_begins_anew(model: Decoded) -> None:
    source, mine = model.computed(TOKENS[: CONTEXT - 10]), model.arena()
    whole = source.length // BLOCK_TOKENS * BLOCK_TOKENS
    for start in range(0, whole - SLACK_ROWS, BLOCK_TOKENS):  # the last blocks are missing
        end = start + BLOCK_TOKENS
        mine.copy_in(TOKENS[start:end], source.read(start, end), Quality.EXACT)
    assert mine.truncate(mine.length) == mine.base == 0


def test_a_shape_of_gemma_3_keeps_three_tenths_of_full_layers() -> None:
    shape = parse_config(
        {
            "model_type": "gemma3_text", "vocab_size": 262_144, "hidden_size": 2560, "num_hidden_layers": 34,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 10_240,
            "max_position_embeddings": 131_072, "sliding_window": 1024, "query_pre_attn_scalar": 256,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        }
    )  # fmt: skip
    whole = [replace(each, attention=replace(shape.full, window=0)) for each in shape.layers]
    full = replace(shape, layers=tuple(whole))
    assert [each.window for each in [*shape.attentions][:7]] == [1024] * 5 + [0, 1024]
    assert arena_bytes(shape, 32_768) <= 0.3 * arena_bytes(full, 32_768)


UNKNOWN = {
    "layer_types": {"layer_types": ["sliding_attention", "chunked_attention"]},
    "later tokens": {"use_bidirectional_attention": True},
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_patterns_that_nobody_knows_are_named(what: str) -> None:
    named = "chunked_attention" if what == "layer_types" else what
    with pytest.raises(UnknownArchitecture, match=named):
        parse_config(config(Tiny("gemma3_text")) | UNKNOWN[what])


def test_windows_as_configurations_name_them() -> None:
    def windows(family: str, **others: object) -> list[int]:
        shape: ModelConfig = parse_config(config(Tiny(family, layers=4)) | others)  # pyright: ignore[reportArgumentType]
        return [each.window for each in shape.attentions]

    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    for family in ("gemma2", "gemma3_text", "cohere2"):
        assert windows(family, layer_types=kinds) == [0, 40, 40, 0]
        assert windows(family, sliding_window=9999) == [0] * 4, "it covers the context"
    assert windows("gemma2") == [40, 0, 40, 0]
    assert windows("qwen2", use_sliding_window=True, sliding_window=30, max_window_layers=3) == [0, 0, 0, 30]
    assert windows("mistral", sliding_window=30) == [30] * 4
