"""Configurations as models are published with them: what they mean to the decoder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from model_runtime.checkpoint.config import (
    EMBEDDED,
    LANGUAGES_KEY,
    ModelConfig,
    UnknownArchitecture,
    parse_config,
    read_config,
    read_json,
    read_languages,
)
from model_runtime.checkpoint.rope_parameters import Rope
from model_runtime.checkpoint.weights import expected_shapes
from model_runtime.errors import ModelError
from tests.models import FIELDS, Tiny, config, reshaped

# As on the models' pages: fields of config.json, and the number of parameters.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "Qwen2.5-Coder-1.5B": (
        {
            "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 1536, "intermediate_size": 8960,
            "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 12,
            "num_hidden_layers": 28, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
            "sliding_window": 131072, "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 151936,
        },
        1_543_714_304,
    ),
    "deepseek-coder-1.3b-base": (
        {
            "model_type": "llama", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5504,
            "max_position_embeddings": 16384, "num_attention_heads": 16, "num_hidden_layers": 24,
            "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_scaling": {"factor": 4.0, "type": "linear"},
            "rope_theta": 100000, "tie_word_embeddings": False, "vocab_size": 32256,
        },
        1_346_471_936,
    ),
    "starcoder2-3b": (
        {
            "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072,
            "intermediate_size": 12288, "max_position_embeddings": 16384, "norm_epsilon": 1e-05,
            "num_attention_heads": 24, "num_hidden_layers": 30, "num_key_value_heads": 2,
            "rope_theta": 999999.4420358813, "sliding_window": 4096, "use_bias": True, "vocab_size": 49152,
        },
        3_030_371_328,
    ),
    "CodeLlama-7b-hf": (
        {
            "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
            "max_position_embeddings": 16384, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 32, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 1000000,
            "tie_word_embeddings": False, "vocab_size": 32016,
        },
        6_738_546_688,
    ),
    "codegemma-2b": (
        {
            "model_type": "gemma", "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 2048, "intermediate_size": 16384, "head_dim": 256, "max_position_embeddings": 8192,
            "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0, "vocab_size": 256000,
        },
        2_506_172_416,
    ),
}  # fmt: skip


def published(name: str) -> ModelConfig:
    return parse_config(PUBLISHED[name][0])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_as_many_parameters_as_its_page_says(name: str) -> None:
    assert sum(map(math.prod, expected_shapes(published(name)).values())) == PUBLISHED[name][1]


def test_windows_that_slide_bound_the_context_where_they_are_used() -> None:
    assert published("starcoder2-3b").context == 4096
    assert published("Qwen2.5-Coder-1.5B").context == 32768
    raw = config(Tiny("mistral", context=9000))
    assert parse_config(raw).context == 9000
    assert parse_config(raw | {"sliding_window": 100}).context == 100
    del raw["sliding_window"]
    assert parse_config(raw).context == 4096


def test_rope_is_stretched_as_either_spelling_says() -> None:
    assert published("deepseek-coder-1.3b-base").rope == Rope(100_000.0, "linear", 4.0)
    old = config(Tiny(scaling="yarn"))
    new = {**old, "rope_parameters": {**old["rope_scaling"], "rope_theta": old["rope_theta"]}}
    del new["rope_scaling"], new["rope_theta"]
    assert parse_config(old) == parse_config(new)
    assert parse_config(old).rope.attention == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_may_say_how_sharply_it_attends() -> None:
    raw = config(Tiny(scaling="yarn"))
    told = {**raw, "rope_scaling": {**raw["rope_scaling"], "attention_factor": 1.25}}
    assert parse_config(told).alike.attention.query_scale == 1.25**2
    scaled = {**raw, "rope_scaling": {**raw["rope_scaling"], "mscale": 0.707, "mscale_all_dim": 0.707}}
    assert parse_config(scaled).alike.attention.query_scale == 1
    without = {**raw, "rope_scaling": {**raw["rope_scaling"], "mscale": 0, "mscale_all_dim": 0}}
    assert parse_config(without) == parse_config(raw)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma", "granite"])
def test_biases_are_there_where_the_config_says_so(family: Any) -> None:
    raw = config(Tiny(family)) | {"attention_bias": True}
    biased = parse_config(raw)
    attention, mlp = biased.alike.attention, biased.alike.mlp
    assert attention.qkv_bias and attention.out_bias
    plain = parse_config(raw | {"attention_bias": False, "mlp_bias": False})
    assert reshaped(plain, qkv_bias=True, out_bias=True, mlp_bias=mlp.mlp_bias) == biased


UNKNOWN = {
    "phi3": {"model_type": "phi3"},
    "relu": {"hidden_act": "relu"},
    "longrope": {"rope_scaling": {"type": "longrope", "factor": 4.0}},
    "50%": {"partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_the_decoder_does_not_know_is_named(what: str) -> None:
    with pytest.raises(UnknownArchitecture, match=what):
        parse_config(config(Tiny()) | UNKNOWN[what])


def test_a_quantized_checkpoint_is_refused() -> None:
    with pytest.raises(ModelError, match="awq.*use the unquantized model"):
        parse_config(config(Tiny()) | {"quantization_config": {"quant_method": "awq"}})


def test_every_family_is_tested() -> None:
    for family in FIELDS:
        assert parse_config(config(Tiny(family))).family == family


def test_a_model_names_the_languages_it_knows_or_none(tmp_path: Path) -> None:
    for written, languages in (({}, ()), ({LANGUAGES_KEY: None}, ()), ({LANGUAGES_KEY: ["go", "c"]}, ("go", "c"))):
        (tmp_path / "config.json").write_text(json.dumps(written))
        assert read_languages(tmp_path) == languages


@pytest.mark.parametrize("damaged", ["python", 3, {"python": 1}, ["python", 3], [""], False])
def test_languages_that_are_no_list_of_names_are_refused(tmp_path: Path, damaged: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps({LANGUAGES_KEY: damaged}))
    with pytest.raises(ModelError, match=f"{LANGUAGES_KEY} is .*not a list of strings: fetch the model again"):
        read_languages(tmp_path)


def test_the_embedded_model_knows_python_which_changes_nothing_that_its_kv_depends_on() -> None:
    raw = read_json(EMBEDDED / "config.json")
    assert read_languages(EMBEDDED) == ("python",)
    assert parse_config({name: value for name, value in raw.items() if name != LANGUAGES_KEY}) == read_config(
        EMBEDDED
    )
