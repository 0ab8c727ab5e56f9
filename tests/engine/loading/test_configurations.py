"""Whatever a configuration says, it ends in the shape of a model, or in a sentence with the cause and a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from model_runtime.checkpoint.config import FAMILY_FIELDS, ModelConfig
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_architecture
from tests.models import FIELDS

# Their configurations refuse their own defaults.
WITHOUT_DEFAULTS = {"gemma4_assistant"}
FOREIGN = ("stablelm", "bloom", "falcon", "mpt", "gemma3", "llama4", "gemma4_text", "deepseek_v4", "phi3", "nothing")
SHAPE = {
    "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "eos_token_id": 1,
}  # fmt: skip
NAMES = [
    *SHAPE, "sliding_window", "layer_types", "rope_scaling", "rope_parameters", "text_config", "quantization_config",
    "quantization", "alibi", "tie_word_embeddings", "hidden_act", "rms_norm_eps", "torch_dtype", "dtype",
]  # fmt: skip
ODD = [None, True, -1, 0, 3, 1.5, 10**7, 10**30, "", "many", [], [1, "a"], {}, {"type": "yarn"}, {"bits": 4}, SHAPE]
odd = st.one_of(st.sampled_from(ODD), st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists))


def read(raw: object) -> ModelConfig | str:
    """Return the shape that a configuration describes, or why there is none."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(raw))
        try:
            return read_architecture(Path(folder))
        except ModelError as error:
            return str(error)


@pytest.mark.parametrize("family", sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - WITHOUT_DEFAULTS))
def test_each_family_of_transformers_is_read_or_refused_with_its_cause(family: str) -> None:
    found = read(AutoConfig.for_model(family).to_diff_dict() | {"model_type": family})
    if isinstance(found, str):
        assert "\n" not in found and "fetch the model again" not in found
        assert "use a" in found


@settings(max_examples=150)
@given(
    family=st.sampled_from([*FAMILY_FIELDS, *FOREIGN]),
    changed=st.dictionaries(st.sampled_from(NAMES), odd, max_size=3),
    lost=st.sets(st.sampled_from([*SHAPE]), max_size=2),
)
@example("stablelm", {"num_hidden_layers": 10**7}, set())
@example("llama", {"num_hidden_layers": 10**7}, set())
@example("llama", {"quantization": {"group_size": 64, "bits": 4}}, set())
def test_an_odd_field_is_refused_in_a_sentence(family: str, changed: dict[str, Any], lost: set[str]) -> None:
    kept = {
        name: value for name, value in (SHAPE | dict(FIELDS).get(cast(Any, family), {})).items() if name not in lost
    }
    found = read(kept | {"model_type": family} | changed)
    assert isinstance(found, ModelConfig) or ": " in found


@pytest.mark.parametrize(
    "family, fields, cause",
    [
        ("gemma3", {"text_config": SHAPE}, "'gemma3' reads more than text (text_config, vision_config)"),
        ("llama4", {}, "'llama4' reads more than text"),
        ("falcon", {"alibi": True}, "'falcon' has ALiBi"),
        ("bloom", {}, "'bloom' has ALiBi"),
        ("llama", SHAPE | {"quantization": {"group_size": 64, "bits": 4}}, "quantized (MLX, 4 bits): use the unq"),
        ("llama", SHAPE | {"quantization_config": {"group_size": 64, "bits": 8}}, "quantized (MLX, 8 bits)"),
        ("llama", SHAPE | {"quantization_config": {"quant_method": "awq", "bits": 4}}, "quantized (awq, 4 bits)"),
        ("stablelm", SHAPE | {"quantization_config": {"quant_method": "fp8"}}, "quantized (fp8)"),
        ("llama", SHAPE | {"num_hidden_layers": 10**7}, "more than any model has"),
        ("stablelm", SHAPE | {"num_hidden_layers": 10**7}, "more than any model has"),
        ("rwkv", {}, "the configuration of 'rwkv' has no num_attention_heads"),
    ],
)
def test_the_cause_is_named(family: str, fields: dict[str, Any], cause: str) -> None:
    assert cause in str(read({"model_type": family} | fields))
