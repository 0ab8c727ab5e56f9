"""Adapters that PEFT itself made and saved: merged as PEFT merges them, or refused with cause and remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.tensor_shapes import EMBEDDING, HEAD, stored_name
from model_runtime.checkpoint.weights import StoredWeights, as_fp32, read_weights
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import Checkpoint, read_architecture, read_checkpoint, read_tokenizer
from tests.engine.hf import FAMILIES
from tests.engine.hf import make as make_foreign
from tests.models import CODE, Family, Tiny, make, reference, tokenizer_json
from tests.sized import Sized

LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
MERGE = "use the model that merge_and_unload of peft makes of it"


def saved(base: Path, folder: Path, dtype: torch.dtype = torch.float32, seed: int = 0, **options: Any) -> Any:
    """Save an adapter that changes its base; returns the model that PEFT makes of both."""
    from peft import LoraConfig, PeftModel, get_peft_model  # takes a second, in each process that collects tests

    torch.manual_seed(seed)
    model = get_peft_model(reference(base), LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(str(folder))
    file = folder / "adapter_model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(file).items()}, file)
    return PeftModel.from_pretrained(reference(base), folder)


def read(folder: Path) -> tuple[Checkpoint, StoredWeights]:
    checkpoint = read_checkpoint(folder)
    assert checkpoint.adapter is not None
    weights = read_weights(checkpoint.folder, checkpoint.config)
    return checkpoint, checkpoint.adapter.merged(weights, checkpoint.config)


TARGETS = {
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "qwen2": ["q_proj", "v_proj", "down_proj"],
    "starcoder2": ["q_proj", "o_proj", "c_fc", "c_proj"],
    "deepseek_v2": ["q_proj", "kv_b_proj", "o_proj"],
}


def in_order(patterns: dict[str, int]) -> dict[str, int]:
    """Sort patterns as PEFT does when it saves them: the first that fits counts."""
    return dict(sorted(patterns.items()))


@st.composite
def adapters(draw: st.DrawFn) -> tuple[Tiny, torch.dtype, dict[str, Any]]:
    """Draw a base, the format of an adapter, and PEFT's options."""
    family = cast(Family, draw(st.sampled_from(sorted(TARGETS))))
    targets = draw(st.lists(st.sampled_from(TARGETS[family]), min_size=1, unique=True))
    patterns = st.sampled_from([f".*\\.0\\..*{targets[0]}", targets[0], f"layers.1.self_attn.{targets[-1]}"])
    kept = ["input_layernorm", "lm_head"]  # trained in full
    options = {
        "r": draw(st.integers(1, 6)),
        "lora_alpha": draw(st.integers(1, 40)),
        "use_rslora": draw(st.booleans()),
        "target_modules": targets,
        "rank_pattern": in_order(draw(st.dictionaries(patterns, st.integers(1, 6), max_size=2))),
        "alpha_pattern": in_order(draw(st.dictionaries(patterns, st.integers(1, 40), max_size=2))),
        "modules_to_save": draw(st.sampled_from([None, *[[each] for each in kept], kept])),
        "bias": draw(st.sampled_from(["none", "all", "lora_only"])),
        "init_lora_weights": draw(st.sampled_from([True, "gaussian"])),
    }
    return Tiny(family, tied=False), draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16])), options


@settings(max_examples=10)
@given(adapters())
def test_the_weights_are_the_ones_that_peft_merges(drawn: tuple[Tiny, torch.dtype, dict[str, Any]]) -> None:
    tiny, dtype, options = drawn
    with TemporaryDirectory() as home:
        model = saved(make(Path(home, "base"), tiny), Path(home, "adapter"), dtype, **options)
        _, weights = read(Path(home, "adapter"))
        merged = model.merge_and_unload().state_dict()
        own = {name: stored_name(tiny.family, name) for name in weights}
        for name in (each for each in weights if own[each] in merged):  # transformers stacks experts
            expected = merged[own[name]].numpy()
            np.testing.assert_allclose(as_fp32(weights[name]), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def complete(folder: Path, **options: Any) -> tuple[list[str], dict[str, object]]:
    wanted = Sized(model=str(folder), max_new_tokens=10, weights="fp32", suggestions=0.0, **options)
    completer = Completer.load(wanted, lambda stage, percent: None)
    requests = [Request("a", CODE[:at], at, explicit=True) for at in range(300, 330, 3)]
    return [completer.complete(each, NEVER).text for each in requests], completer.describe()


def test_an_adapter_completes_as_the_merged_model(tmp_path: Path) -> None:
    base = make(tmp_path / "base")
    model = saved(base, tmp_path / "adapter", target_modules="all-linear", lora_alpha=32)
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    shutil.copy(base / "tokenizer.json", tmp_path / "merged")
    adapted, described = complete(tmp_path / "adapter")
    assert adapted == complete(tmp_path / "merged")[0]
    assert adapted != complete(base)[0]
    assert described["model"] == str(tmp_path / "adapter")


def test_keys_and_values_of_one_adapter_are_no_others(tmp_path: Path) -> None:
    base = make(tmp_path / "base")
    for name, alpha in (("one", 8), ("other", 16)):
        saved(base, tmp_path / name, target_modules=["q_proj"], lora_alpha=alpha)
    contents = [
        [path.read_bytes() for path in read_checkpoint(folder).files]
        for folder in (base, tmp_path / "one", tmp_path / "other")
    ]
    assert contents[1] != contents[2], "the same matrices with another factor"
    assert len(contents[0]) < len(contents[1])


def test_a_head_that_is_its_bases_embedding_becomes_a_matrix_of_its_own(tmp_path: Path) -> None:
    base = make(tmp_path / "base", Tiny(tied=True))
    saved(base, tmp_path / "adapter", target_modules=["q_proj"], modules_to_save=["lm_head"])
    checkpoint, weights = read(tmp_path / "adapter")
    trained = load_file(tmp_path / "adapter" / "adapter_model.safetensors")["base_model.model.lm_head.weight"]
    assert np.array_equal(weights[HEAD], trained.numpy())
    assert np.array_equal(weights[EMBEDDING], read_weights(base, checkpoint.config)[EMBEDDING])
    assert complete(tmp_path / "adapter")[0] != complete(base)[0]


def test_rows_of_an_embedding_are_changed_too(tmp_path: Path) -> None:
    base = make(tmp_path / "base", Tiny(tied=False))
    model = saved(base, tmp_path / "adapter", target_modules=["embed_tokens", "q_proj"], r=3)
    merged = model.merge_and_unload().state_dict()
    _, weights = read(tmp_path / "adapter")
    np.testing.assert_allclose(as_fp32(weights[EMBEDDING]), merged["model.embed_tokens.weight"], rtol=1e-5, atol=1e-6)


def test_its_size_and_its_tokenizer_are_its_bases(tmp_path: Path) -> None:
    base = make(tmp_path / "base")
    saved(base, tmp_path / "adapter", target_modules=["q_proj"])
    config = read_architecture(tmp_path / "adapter")
    assert config == read_architecture(base)
    assert read_tokenizer(tmp_path / "adapter", config).digest == read_tokenizer(base, config).digest


def say(folder: Path, **fields: object) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def retensor(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "adapter_model.safetensors")
    change(tensors)
    save_file(tensors, folder / "adapter_model.safetensors")


A, B = f"{LAYER}.lora_A.weight", f"{LAYER}.lora_B.weight"
NORM, EMBED = "base_model.model.model.norm.weight", "base_model.model.model.embed_tokens.weight"


def with_further_layer(tensors: dict[str, torch.Tensor]) -> None:
    for name in (A, B):
        tensors[name.replace(".0.", ".9.")] = tensors[name].clone()


# By the fault: fields of its configuration that say so, or a change of its tensors or of its folder; the message.
SAYS: dict[str, tuple[dict[str, object], str]] = {
    "no base": ({"base_model_name_or_path": None}, "is called '', not a folder: write where it is into"),
    "a base that is gone": ({"base_model_name_or_path": "/home/trainer/base"}, "is not at /home/trainer/base: write"),
    "a base in the current folder": (
        {"base_model_name_or_path": "./base"},
        "is called './base', not a folder: write",
    ),
    "a base of the hub": (
        {"base_model_name_or_path": "own/coder"},
        "own/coder, is not on this machine: name own/coder in the setting model once, which fetches it, or write",
    ),
    "another kind": ({"peft_type": "IA3"}, f"of the kind IA3, and LoRA alone is read: {MERGE}"),
    "no kind": ({"peft_type": None}, "of the kind none"),
    "DoRA": ({"use_dora": True}, f"has the option use_dora, which is not read: {MERGE}"),
    "an option to come": ({"use_new": [1]}, "has the option use_new, which is not read"),
    "a base that was changed": ({"init_lora_weights": "pissa"}, "began as 'pissa', which changes its base"),
    "a factor that is no number": ({"lora_alpha": "x"}, "lora_alpha is 'x', not a positive number"),
    "a pattern that is none": ({"alpha_pattern": {"(": 2}}, "'(' in alpha_pattern, no regular expression"),
}
HAS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], object], str]] = {
    "half of it": (lambda all: all.pop(B), "lacks a factor of model.layers.0.self_attn.q_proj"),
    "a matrix turned": (
        lambda all: all.update({A: all[A].T.contiguous()}),
        "by matrices of (64, 4) and (48, 4), and",
    ),
    "two ranks": (lambda all: all.update({A: all[A][:3].clone()}), "by matrices of (64, 4) and (3, 48), and"),
    "a further layer": (with_further_layer, "changes model.layers.9.self_attn.q_proj.weight, which"),
    "a tensor of another kind": (
        lambda all: all.update({f"{LAYER}.lora_magnitude_vector": all[A].clone()}),
        "has model.layers.0.self_attn.q_proj.lora_magnitude_vector, which is not read",
    ),
    "a tensor of another size": (
        lambda all: all.update({NORM: torch.ones(47)}),
        "replaces model.norm.weight by (47,) numbers, the base has (48,)",
    ),
    "the embedding alone": (
        lambda all: all.update({EMBED: torch.ones(400, 48)}),
        "changes model.embed_tokens.weight alone, which is the base's output head, too",
    ),
    "no rank": (
        lambda all: all.update({A: all[A][:0], B: all[B][:, :0].contiguous()}),
        "of (64, 0) and (0, 48), and",
    ),
    "whole numbers": (lambda all: all.update({A: all[A].to(torch.int8)}), "in I8, which is not read"),
    "NaN": (lambda all: all[A].fill_(torch.nan), "contains NaN or infinity: train the adapter again"),
}
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pickle": (
        lambda at: (at / "adapter_model.safetensors").rename(at / "adapter_model.bin"),
        "has only adapter_model.bin, a pickle: it can hold code and is never opened; save the adapter",
    ),
    "no weights": (lambda at: (at / "adapter_model.safetensors").unlink(), "has no adapter_model.safetensors: save"),
    "weights cut short": (lambda at: (at / "adapter_model.safetensors").write_bytes(b"\x10"), "cannot be read ("),
    "a configuration cut short": (lambda at: (at / "adapter_config.json").write_text("{"), "cannot be read ("),
    "an adapter of itself": (lambda at: say(at, base_model_name_or_path=str(at)), "where a whole model is needed"),
    **{what: (partial(say, **fields), said) for what, (fields, said) in SAYS.items()},
    **{what: (partial(retensor, change=change), said) for what, (change, said) in HAS.items()},
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an adapter and its base."""
    home = tmp_path_factory.mktemp("pair")
    saved(make(home / "base"), home / "adapter", target_modules=["q_proj"], r=4)
    return home


@pytest.mark.parametrize("what", DAMAGE)
def test_an_adapter_that_cannot_be_merged_is_refused_with_cause_and_remedy(
    what: str, pair: Path, tmp_path: Path
) -> None:
    damage, said = DAMAGE[what]
    folder = Path(shutil.copytree(pair / "adapter", tmp_path / "adapter"))
    damage(folder)
    with pytest.raises(ModelError) as refused:
        complete(folder)
    assert said in str(refused.value), str(refused.value)
    assert ": " in str(refused.value)


def test_an_adapter_of_a_model_that_transformers_computes_is_refused(tmp_path: Path) -> None:
    base = make_foreign(tmp_path / "base", "stablelm", **FAMILIES["stablelm"])
    (base / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    saved(make(tmp_path / "own"), tmp_path / "adapter", target_modules=["q_proj"])
    say(tmp_path / "adapter", base_model_name_or_path=str(base))
    with pytest.raises(ModelError, match="transformers computes .*, without adapters: use the model that"):
        complete(tmp_path / "adapter")
