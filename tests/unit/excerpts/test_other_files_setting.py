"""Whether prompts show text of other files: as the setting says, or by what the model was trained on and its size."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.models.open import load_model, shows_other_files
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import ModelConfig, parse_config, read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.loading.checkpoint_reader import Checkpoint, read_checkpoint
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import FULL_EXCERPTS
from tests.models import Tiny, make
from tests.tiny_tokenizers import write
from tests.unit.prompt.test_excerpt_layout import CASES

TRAINED = {"qwen", "codegemma", "starcoder2"}  # the golden files of families whose cards show repositories


def config_of(layers: int) -> ModelConfig:
    """Qwen2.5-Coder-1.5B's shape, of its 28 layers some."""
    shape = {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2}
    return parse_config(
        {"model_type": "qwen2", "vocab_size": 151936, "num_hidden_layers": layers, "tie_word_embeddings": True}
        | shape
    )


@pytest.mark.parametrize("name", CASES)
def test_large_models_that_were_trained_on_repositories_read_other_files(name: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer(write(tmp_path, CASES[name]["kind"], CASES[name]["markers"]))
    large, small = (
        Checkpoint(tmp_path, config_of(layers), tokenizer, find_template(tokenizer)) for layers in (28, 12)
    )
    is_on, reason = shows_other_files(Settings(), large)
    assert is_on == (name in TRAINED) and ("was trained on repositories" in reason) == is_on
    assert not shows_other_files(Settings(), small)[0]
    for each in (large, small):
        assert shows_other_files(Settings(other_files="text"), each) == (True, "switched on")
        for value in ("phrases", "off"):
            is_on, reason = shows_other_files(Settings(other_files=value), each)
            assert not is_on and (reason == "switched off") == shows_other_files(Settings(), each)[0]


def test_a_small_model_reads_none_and_keeps_no_rows_for_them(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", Tiny(context=2560, excerpt_rows=512, vocabulary=read_config(EMBEDDED).vocab))
    shutil.copy(EMBEDDED / "tokenizer.json", folder)
    for each in (EMBEDDED, folder):
        is_on, reason = shows_other_files(Settings(), read_checkpoint(each))
        assert not is_on and " million parameters: too few" in reason
    settings = Settings(model=str(folder), persist=False)
    off, budget = load_model(settings, lambda *_: None)
    assert (off.excerpt_rows, off.mask, off.parts.library, budget.context) == (0, "", None, ())
    assert budget.describe()["other_files"] == "off" and budget.describe()["other_files_reason"] == reason
    on, budget = load_model(replace(settings, other_files="text"), lambda *_: None)
    assert on.excerpt_rows == 512 >= sum(budget.context) > 500 and on.parts.library
    assert all(tokens <= most for tokens, most in zip(budget.context, FULL_EXCERPTS, strict=True))
    assert budget.describe()["other_files"] == "on"
