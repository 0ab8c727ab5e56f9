"""Configurations as models are published with them: what they mean to the decoder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from model_runtime.checkpoint.config import (
    LANGUAGES_KEY,
    ModelConfig,
    UnknownArchitecture,
    parse_config,
    read_config,
    read_languages,
)
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.families.fields import read_json
from model_runtime.checkpoint.families.layer_spec import Rope
from model_runtime.checkpoint.tensor_shapes import count_active, expected_shapes
from model_runtime.errors import ModelError
from tests.models import CLASSES, FIELDS, Family, Tiny, config, reshaped

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
    "gemma-2-2b": (
        {
            "model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
            "max_position_embeddings": 8192, "num_attention_heads": 8, "num_hidden_layers": 26,
            "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
            "sliding_window": 4096, "vocab_size": 256000,
        },
        2_614_341_888,
    ),
    "gemma-3-1b-pt": (
        {
            "model_type": "gemma3_text", "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
            "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
            "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
            "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144,
        },
        999_885_952,
    ),
    "Mixtral-8x7B-v0.1": (
        {
            "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
            "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
            "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "rms_norm_eps": 1e-05,
            "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "vocab_size": 32000,
        },
        46_702_792_704,
    ),
    "Qwen3-30B-A3B": (
        {
            "model_type": "qwen3_moe", "attention_bias": False, "decoder_sparse_step": 1, "head_dim": 128,
            "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
            "max_window_layers": 48, "mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": True,
            "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
            "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000.0,
            "sliding_window": None, "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 151936,
        },
        30_532_122_624,
    ),
    "DeepSeek-Coder-V2-Lite-Base": (
        {
            "model_type": "deepseek_v2", "attention_bias": False, "first_k_dense_replace": 1, "hidden_act": "silu",
            "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
            "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
            "norm_topk_prob": False, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
            "num_key_value_heads": 16, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "rms_norm_eps": 1e-06, "rope_theta": 10000, "routed_scaling_factor": 1.0, "tie_word_embeddings": False,
            "topk_group": 1, "topk_method": "greedy", "v_head_dim": 128, "vocab_size": 102400,
            "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                "original_max_position_embeddings": 4096, "type": "yarn",
            },
        },
        15_706_484_224,
    ),
    "gpt-oss-20b": (
        {
            "model_type": "gpt_oss", "attention_bias": True, "head_dim": 64, "hidden_act": "silu",
            "hidden_size": 2880, "intermediate_size": 2880, "max_position_embeddings": 131072,
            "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
            "num_local_experts": 32, "rms_norm_eps": 1e-05, "rope_theta": 150000, "sliding_window": 128,
            "tie_word_embeddings": False, "vocab_size": 201088,
            "rope_scaling": {
                "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                "rope_type": "yarn", "truncate": False,
            },
        },
        20_914_757_184,
    ),
}  # fmt: skip


def published(name: str) -> ModelConfig:
    return parse_config(PUBLISHED[name][0])


@pytest.mark.parametrize("family", sorted(set(CLASSES) - {"efim", "llama_swiftkv"}))
def test_what_transformers_saves_anew_has_the_same_shape(family: Family, tmp_path: Path) -> None:
    """It knows other names for some fields, writes defaults, and some numbers in a way of its own."""
    raw = config(Tiny(family, layers=4, scaling="yarn" if family == "gpt_oss" else ""))
    (tmp_path / "config.json").write_text(json.dumps(raw), "utf-8")
    AutoConfig.from_pretrained(tmp_path).save_pretrained(tmp_path / "saved")
    assert read_config(tmp_path / "saved") == parse_config(raw)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_as_many_parameters_as_its_page_says(name: str) -> None:
    assert sum(map(math.prod, expected_shapes(published(name)).values())) == PUBLISHED[name][1]


def windows(shape: ModelConfig) -> list[int]:
    return [layer.attention.window for layer in shape.layers if layer.attention is not None]


def test_windows_that_slide_leave_the_context_as_it_is() -> None:
    assert published("starcoder2-3b").context == 16384
    assert set(windows(published("starcoder2-3b"))) == {4096}
    assert set(windows(published("Qwen2.5-Coder-1.5B"))) == {0}
    assert windows(published("gemma-3-1b-pt"))[:7] == [512] * 5 + [0, 512]
    assert windows(published("gpt-oss-20b"))[:2] == [128, 0]
    raw = config(Tiny("mistral", context=9000))
    assert set(windows(parse_config(raw))) == {0}
    assert set(windows(parse_config(raw | {"sliding_window": 100}))) == {100}
    del raw["sliding_window"]
    assert set(windows(parse_config(raw))) == {4096}


def test_layers_that_slide_and_isolated_excerpts_exclude_each_other() -> None:
    raw = config(Tiny("mistral", excerpt_rows=64))
    assert parse_config(raw).excerpt_rows == 64
    with pytest.raises(ModelError, match="isolated_excerpts in sight: remove one"):
        parse_config(raw | {"sliding_window": 100})


def test_a_mixture_computes_a_token_with_few_of_its_parameters() -> None:
    for name, billions in (("Qwen3-30B-A3B", 3.35), ("DeepSeek-Coder-V2-Lite-Base", 2.66), ("gpt-oss-20b", 4.19)):
        assert count_active(published(name)) / 1e9 == pytest.approx(billions, rel=0.01)


def test_rope_is_stretched_as_either_spelling_says() -> None:
    assert published("deepseek-coder-1.3b-base").ropes == (Rope(100_000.0, "linear", 4.0),)
    old = config(Tiny(scaling="yarn"))
    new = {**old, "rope_parameters": {**old["rope_scaling"], "rope_theta": old["rope_theta"]}}
    del new["rope_scaling"], new["rope_theta"]
    assert parse_config(old) == parse_config(new)
    assert parse_config(old).full.rope.attention == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_may_say_how_sharply_it_attends() -> None:
    raw = config(Tiny(scaling="yarn"))
    told = {**raw, "rope_scaling": {**raw["rope_scaling"], "attention_factor": 1.25}}
    assert parse_config(told).full.query_scale == 1.25**2
    scaled = {**raw, "rope_scaling": {**raw["rope_scaling"], "mscale": 0.707, "mscale_all_dim": 0.707}}
    assert parse_config(scaled).full.query_scale == 1
    without = {**raw, "rope_scaling": {**raw["rope_scaling"], "mscale": 0, "mscale_all_dim": 0}}
    assert parse_config(without) == parse_config(raw)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma", "granite"])
def test_biases_are_there_where_the_config_says_so(family: Any) -> None:
    raw = config(Tiny(family)) | {"attention_bias": True}
    biased = parse_config(raw)
    attention, mlp = biased.full, biased.dense
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
        assert parse_config(config(Tiny(family, layers=5))).family == family


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
