"""Folders that hold a model in another layout: the message names what is there, and how it can be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from model_runtime.checkpoint.config import parse_config, read_config
from model_runtime.checkpoint.tensors.compact import MOST_HEADER
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.checkpoint.weights import read_weights
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint, read_tokenizer
from tests.models import Tiny, config, make
from tests.tiny_tokenizers import text_of

ADAPTER = "holds an adapter (adapter_config.json) where a whole model is needed: use the model that merge_and_unload"
CONFIGLESS = [
    (
        ["adapter_config.json", "adapter_model.safetensors"],
        "holds an adapter of the kind none, and LoRA alone is read",
    ),
    (["coder-Q4_K_M.gguf"], "coder-Q4_K_M.gguf is not a GGUF file: name a folder that holds a model, or a GGUF file"),
    (["params.json", "consolidated.safetensors"], "Mistral's own layout, which is not read: use the files that"),
    (["model.safetensors"], "config.json does not exist: name a folder that holds a model"),
    ([], "config.json does not exist: name a folder that holds a model"),
]
WEIGHTLESS = [
    (["model-00001-of-00002.safetensors"], "but no model.safetensors.index.json, which names the shards: fetch that"),
    (
        ["consolidated.safetensors", "params.json"],
        "consolidated.safetensors, but no model.safetensors: it is in",
    ),
    (
        ["weights.safetensors"],
        "weights.safetensors, but no model.safetensors: if it holds the whole model, rename",
    ),
    (["pytorch_model.bin"], "only pytorch_model.bin, a pickle"),
    (["a.gguf", "b.gguf", "other.txt"], "holds 2 models in GGUF: name a file, such as a.gguf"),
    (["adapter_config.json", "model.safetensors"], ADAPTER),
    ([], "holds no model.safetensors: choose a folder with weights in safetensors"),
]
WITHOUT_TOKENIZER = [
    (["tokenizer.model"], "only tokenizer.model, which is not read: convert it with AutoTokenizer"),
    (["tekken.json", "tokenizer_config.json"], "only tekken.json, which is not read: convert it with AutoTokenizer"),
    (["vocab.json", "merges.txt"], "only vocab.json, which is not read: convert it with AutoTokenizer"),
    ([], "has no tokenizer.json: fetch the model again"),
]


def holding(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize("names, message", CONFIGLESS)
def test_a_folder_without_a_configuration_is_refused_for_what_it_holds(
    names: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as refused:
        read_checkpoint(holding(tmp_path, names))
    assert message in str(refused.value)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"coder\.txt is not a GGUF file: name a folder that holds a model"):
        read_checkpoint(holding(tmp_path, ["coder.txt"]) / "coder.txt")


@pytest.mark.parametrize("names, message", WEIGHTLESS)
def test_a_folder_without_weights_is_refused_for_what_it_holds(
    names: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as refused:
        weight_files(holding(tmp_path, names))
    assert message in str(refused.value)


@pytest.mark.parametrize("names, message", WITHOUT_TOKENIZER)
def test_a_folder_without_a_tokenizer_is_refused_for_what_it_holds(
    names: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as refused:
        read_tokenizer(holding(tmp_path, names), parse_config(config(Tiny())))
    assert message in str(refused.value)


def test_a_header_of_any_size_is_not_read(tmp_path: Path) -> None:
    folder = make(tmp_path, Tiny())
    with (folder / "model.safetensors").open("wb") as file:
        file.write((MOST_HEADER + 1).to_bytes(8, "little"))
        file.truncate(MOST_HEADER + 100)
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read \(its header is larger than 16 MiB\)"):
        read_weights(folder, read_config(folder))


@pytest.mark.parametrize("own", ["language_model.model.", "model.language_model.", ""])
def test_weights_of_a_larger_model_or_without_its_head_are_told_from_damaged_ones(own: str, tmp_path: Path) -> None:
    folder = make(tmp_path, Tiny())
    weights = load_file(folder / "model.safetensors")
    save_file({name.replace("model.", own, 1): each for name, each in weights.items()}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"have {own}embed_tokens.weight in place of model.embed"):
        read_weights(folder, read_config(folder))


@pytest.mark.parametrize("name, taken", [("<image_soft_token>", True), ("image", False)])
def test_of_tokens_beyond_the_vocabulary_only_markers_do_not_matter(name: str, taken: bool, tmp_path: Path) -> None:
    content = json.loads(text_of("qwen", "qwen"))
    size = len(content["model"]["vocab"]) + len(content["added_tokens"])
    marker = content["added_tokens"][0] | {"id": size, "content": name, "special": taken}
    content["added_tokens"].append(marker)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    made = parse_config(config(Tiny(vocabulary=size)) | {"eos_token_id": None})
    if not taken:
        with pytest.raises(ModelError, match="tokenizer.json is another model's"):
            read_tokenizer(tmp_path, made)
        return
    found = read_tokenizer(tmp_path, made)
    assert found.vocab == size and name not in found.special and found.token(name) is None
