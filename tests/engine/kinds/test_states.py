"""Layers that have a state go on from where it was kept: nothing that is computed shows it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_store.block import BLOCK_TOKENS
from model_runtime.checkpoint.config import UnknownArchitecture, parse_config
from model_runtime.errors import ModelError
from model_runtime.ids import common_prefix
from model_runtime.kv.codec import STATE, Form, KvCodec
from model_runtime.kv.layout import KvLayout
from model_runtime.kv.sequence import Quality
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.states.rule import GRID
from tests.engine.kinds.decoded import Decoded
from tests.models import VOCABULARY, Family, Tiny, config, make

CONTEXT = 400
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
FAMILIES: tuple[Family, ...] = ("mamba2", "bamba", "granitemoehybrid", "falcon_h1", "qwen3_next", "lfm2")
WAYS: list[tuple[Family, str]] = [*product(FAMILIES, ("torch", "compiled")), ("zaya", "torch")]


@pytest.fixture(scope="module", params=WAYS, ids=" ".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    name, way = request.param
    return Decoded(make(tmp_path_factory.mktemp("model"), Tiny(name, context=CONTEXT)), way, threads=2)


edits = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 90), st.integers(0, 300), st.integers(1, 70)), max_size=6)


@settings(max_examples=8)
@given(edits=edits)
def test_warm_equals_cold_over_random_edits(model: Decoded, edits: list[tuple[float, int, int, int]]) -> None:
    """Each edit cuts a text somewhere and goes on with other tokens, in passes of some width."""
    text, warm = TOKENS[:100], model.computed(TOKENS[:100])
    for share, count, start, step in edits:
        text = np.concatenate((text[: int(share * len(text))], TOKENS[start : start + count]))[: CONTEXT - 1]
        common = common_prefix(warm.ids, text)
        warm.mark((len(text) // 2, len(text)))
        assert warm.truncate(common) <= common
        model.extended(warm, text, step)
        assert warm.ids.tolist() == text.tolist()
    cold = model.computed(text) if len(text) else model.arena()
    assert model.equal(model.logits(warm), model.logits(cold))


def test_a_cut_between_kept_states_computes_at_most_so_many_tokens_again(model: Decoded) -> None:
    arena = model.computed(TOKENS[:300])
    assert 250 - arena.truncate(250) <= GRID


@settings(max_examples=6)
@given(one=st.integers(1, CONTEXT - 2), other=st.integers(1, CONTEXT - 2), share=st.floats(0, 1))
def test_a_copied_prefix_is_as_good_as_the_one_it_was_copied_from(
    model: Decoded, one: int, other: int, share: float
) -> None:
    source, mine = model.computed(TOKENS[:one]), model.computed(TOKENS[:other])
    if held := source.kept(SequenceKey(TOKENS[: int(share * one)])):
        mine.copy_prefix(source, held)
        cut = mine.truncate(held // 2)
        assert model.equal(model.logits(mine), model.logits(model.computed(TOKENS[:cut]) if cut else model.arena()))


@pytest.mark.parametrize("form", [Form.RAW, Form.INT8])
@pytest.mark.parametrize("length", [GRID, 3 * GRID + BLOCK_TOKENS, 3 * GRID + 5])
def test_blocks_bring_back_tokens_and_states(model: Decoded, form: Form, length: int) -> None:
    source, mine = model.computed(TOKENS[:length]), model.arena()
    codec = KvCodec(KvLayout.of(model.config), BLOCK_TOKENS, model.decoder.rotations)
    with_states = list[int]()
    for start in range(0, length - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        end = start + BLOCK_TOKENS
        rows = source.read(start, end)
        tried, _ = codec.forms_at(rows, start, 4096, form)
        data = codec.encode(rows, start, tried)
        assert len(data) == codec.size(tried)
        mine.copy_in(TOKENS[start:end], codec.decode(data, start, tried), Quality.EXACT)
        with_states += [end] * bool(tried & STATE)
    assert with_states and set(range(GRID, length + 1, GRID)) <= {*with_states}
    resumed = mine.truncate(mine.length)
    assert resumed == max(with_states)
    wanted, found = model.logits(model.computed(TOKENS[:resumed])), model.logits(mine)
    assert model.equal(found, wanted) if form == Form.RAW else np.abs(found - wanted).max() < 0.5


def test_blocks_without_states_are_of_no_use_until_one_has_some(model: Decoded) -> None:
    source, mine = model.computed(TOKENS[:100]), model.arena()
    for start in range(0, GRID - BLOCK_TOKENS, BLOCK_TOKENS):
        mine.copy_in(TOKENS[start : start + BLOCK_TOKENS], source.read(start, start + BLOCK_TOKENS), Quality.EXACT)
    assert mine.length == GRID - BLOCK_TOKENS
    assert mine.truncate(mine.length) == 0


UNKNOWN: dict[str, tuple[str, dict[str, Any], type[ModelError]]] = {
    "'chunked'": ("granitemoehybrid", {"layer_types": ["chunked", "full_attention"]}, UnknownArchitecture),
    "without silu": ("bamba", {"hidden_act": "gelu_new"}, UnknownArchitecture),
    "6 heads of 20 numbers are not 96": ("bamba", {"mamba_d_head": 20}, ModelError),
    "6 heads cannot share 4 keys": ("falcon_h1", {"mamba_n_groups": 4}, ModelError),
    "4 heads cannot share 3 keys": ("qwen3_next", {"linear_num_key_heads": 3}, ModelError),
    "6 heads cannot share 5 keys": ("mamba2", {"n_groups": 5}, ModelError),
    "layer_types has 1 of 2 layers": ("lfm2", {"layer_types": ["conv"]}, ModelError),
    "'mamba'": ("zaya", {"layer_types": ["hybrid", "mamba"]}, UnknownArchitecture),
    "convolutions of single tokens": ("zaya", {"cca_time0": 1, "cca_time1": 1}, UnknownArchitecture),
    "num_experts_per_tok is 9 of 5 experts": ("zaya", {"num_experts_per_tok": 9}, ModelError),
    "time_step_limit": ("mamba2", {"time_step_limit": [0.0]}, ModelError),
    "isolated_excerpts in sight": ("lfm2", {"isolated_excerpts": {"mask": "typed", "tokens": 64}}, ModelError),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_nobody_knows_is_named(what: str) -> None:
    family, fields, kind = UNKNOWN[what]
    with pytest.raises(kind, match=what):
        parse_config(config(Tiny(family)) | fields)  # pyright: ignore[reportArgumentType]
