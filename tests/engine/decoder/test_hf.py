"""Models that transformers computes over our arenas get there what they get alone."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.hf.config import hf_size
from model_runtime.decoder.hf.load import kv_form
from model_runtime.decoder.hf.pack import pack
from model_runtime.decoder.linear import packed_format
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.kv.arena import DenseArena
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import ENDLESS, Watched, decoder_of
from tests.engine.hf import CLOSE, CONTEXT, FAMILIES, TOKENS, Model, assert_close, in_passes, load, make
from tests.engine.prompts import generate, prompt_of
from tests.models import VOCABULARY


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(make(tmp_path_factory.mktemp("foreign"), request.param, **FAMILIES[request.param]))


@pytest.mark.parametrize("size", [CONTEXT, 64, 7, 1])
def test_passes_of_any_size_equal_transformers(model: Model, size: int) -> None:
    arena = model.arena()
    expected = model.alone(TOKENS)
    assert expected.std() > 0.5 and (expected[8] - model.alone(TOKENS[1:])[7]).abs().max() > 100 * CLOSE
    assert_close(in_passes(model.decoder, arena, TOKENS, size), expected)
    assert arena.ids.tolist() == TOKENS.tolist()


def test_only_the_rows_that_are_asked_for_get_logits(model: Model) -> None:
    assert_close(model.decoder.forward(TOKENS[:20], model.arena()), model.alone(TOKENS[:20])[-1:])
    assert_close(model.decoder.forward(TOKENS[:20], model.arena(), 3), model.alone(TOKENS[:20])[-3:])


steps = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=6)


@settings(max_examples=15)
@given(steps=steps)
def test_what_was_appended_and_truncated_before_changes_nothing(
    model: Model, steps: list[tuple[float, int, int]]
) -> None:
    arena = model.arena()
    for kept, new, seed in steps:
        arena.truncate(int(kept * arena.length))
        ids = np.random.default_rng(seed).integers(0, VOCABULARY, new).astype(np.int32)[: CONTEXT - arena.length]
        if len(ids):
            logits = model.decoder.forward(ids, arena)
            assert_close(logits, model.alone(arena.ids.copy())[-1:])


def test_spans_of_several_arenas_are_computed_as_if_each_were_alone(model: Model) -> None:
    arenas = [model.arena(), model.arena()]
    model.decoder.forward(TOKENS[:9], arenas[1])
    found = model.decoder.forward_spans([Span(TOKENS[:5], arenas[0], 2), Span(TOKENS[9:12], arenas[1])])
    assert_close(found, torch.cat([model.alone(TOKENS[:5])[-2:], model.alone(TOKENS[:12])[-1:]]))
    assert [arena.length for arena in arenas] == [5, 12]


def test_tokens_are_not_computed_again_in_place(model: Model) -> None:
    arena = model.arena()
    model.decoder.forward(TOKENS[:5], arena)
    with pytest.raises(ModelError, match="in place: use a model"):
        model.decoder.forward_spans([Span(TOKENS[2:3], arena, 1, np.array([2], dtype=np.int32))])


def test_an_engine_says_what_transformers_generates(model: Model, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "def total(records):\n", head="import os\n", tail="x = 1\n")
    engine = Watched(model.decoder, tokenizer, CONTEXT)
    generate(engine, prompt, ENDLESS, 24)
    row, ends = torch.tensor(prompt.ids).long()[None], sorted({*tokenizer.special.values(), 0})
    said = model.reference.generate(row, do_sample=False, max_new_tokens=24, eos_token_id=ends)
    assert engine.log.tokens == said[0, len(prompt.ids) :].tolist()
    assert len(engine.log.tokens) > 1


def test_how_large_a_model_is_takes_its_configuration_alone(model: Model, tmp_path: Path) -> None:
    shutil.copy(model.folder / "config.json", tmp_path)
    weights = [weight.numel() for weight in model.reference.parameters()]
    told = hf_size(tmp_path)[:2]
    assert told == (model.decoder.parameters, max(weights)) == (sum(weights), max(weights))


def test_experts_that_are_joined_are_counted_as_what_they_stay(tmp_path: Path) -> None:
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "num_key_value_heads": 2}
    parameters, _, fixed = hf_size(make(tmp_path, "qwen3_moe", **experts, head_dim=16))
    joined = 2 * 8 * 3 * 24 * 64  # layers, experts, matrices of one, its width, that of the model
    assert joined <= fixed < min(parameters, joined + 2000), "and norms"


@pytest.mark.parametrize("form, tolerance", [(packed_format(), 0.02), ("int8", 0.2)])
def test_a_row_of_a_packed_model_gets_alone_what_it_gets_among_others(
    model: Model, form: Format, tolerance: float
) -> None:
    packed = load(model.folder, form)
    together = packed.forward(TOKENS[:64], model.arena(), 64)
    assert_close(in_passes(packed, model.arena(), TOKENS[:64], 1), together)
    assert_close(together, model.alone(TOKENS[:64]), tolerance)


def test_what_is_stored_in_16_bits_is_computed_in_32(model: Model, tmp_path: Path) -> None:
    half: Any = AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.bfloat16)
    half.save_pretrained(tmp_path)
    stored = Model(tmp_path)
    assert_close(stored.decoder.forward(TOKENS[:50], stored.arena(), 50), stored.alone(TOKENS[:50]))


def test_packing_lets_go_of_what_it_replaces(model: Model) -> None:
    own: Any = AutoModelForCausalLM.from_pretrained(model.folder)
    matrices = [weakref.ref(weight) for weight in own.parameters() if weight.dim() > 1]
    assert matrices
    pack(own, packed_format())
    assert [ref for ref in matrices if ref() is not None] == []


def test_keys_and_values_of_another_configuration_have_another_name(model: Model, tmp_path: Path) -> None:
    raw = (model.folder / "config.json").read_text("utf-8")
    names = set[str]()
    for i, text in enumerate([raw, raw + "\n"]):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "config.json").write_text(text, "utf-8")
        names |= {kv_form(tmp_path / str(i), form) for form in ("fp32", "fp16")}
    assert len(names) == 4


def test_a_model_that_our_decoder_knows_gets_the_same_from_both(folder: Path) -> None:
    own, foreign = decoder_of(folder), load(folder)
    expected = own.forward(TOKENS[:50], DenseArena(own.config, 64), 50)
    assert_close(foreign.forward(TOKENS[:50], DenseArena(foreign.config, 64), 50), expected)
    assert foreign.parameters == sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
