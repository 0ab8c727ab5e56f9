"""Models that transformers computes: how far their contexts reach, and what is refused."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from model_runtime.decoder.hf.config import hf_size
from model_runtime.errors import ModelError
from model_runtime.kv.arena import DenseArena
from tests.engine.hf import GROUPED, TOKENS, Model, assert_close, in_passes, load, make
from tests.models import shard
from tests.unit.checkpoint.damage import cut_short, lacking


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing here looks for another machine."""
    looked_up = list[object]()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: looked_up.append(asked) or [])
    yield
    assert looked_up == []


@pytest.mark.parametrize(
    "family, fields, context",
    [
        ("mistral", GROUPED | {"sliding_window": 64}, 64),
        ("cohere2", GROUPED | {"sliding_window": 32}, 32),
        (
            "phi3",
            GROUPED
            | {"original_max_position_embeddings": 48}
            | {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}},
            48,
        ),
    ],
    ids=["a window", "windows in some layers", "rotations that depend on the length"],
)
def test_the_context_ends_where_rows_would_depend_on_more_than_those_before(
    tmp_path: Path, family: str, fields: dict[str, Any], context: int
) -> None:
    model = Model(make(tmp_path, family, **fields))
    assert model.decoder.config.context == context
    arena, ids = model.arena(), TOKENS[:context]
    assert_close(in_passes(model.decoder, arena, ids, 7), model.alone(ids))


def test_a_pass_beyond_a_window_is_refused(tmp_path: Path) -> None:
    model = Model(make(tmp_path, "mistral", **GROUPED, sliding_window=64))
    with pytest.raises(ModelError, match="its attention needs its own mask"):
        model.decoder.forward(TOKENS[:65], model.arena())


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such files")
def test_no_file_that_transformers_may_read_is_a_device_or_a_pipe(tmp_path: Path) -> None:
    folder = make(tmp_path, "mistral", **GROUPED)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").symlink_to(os.devnull)
    with pytest.raises(
        ModelError, match=r"generation_config\.json cannot be read \(it is not a regular file\): fetch"
    ):
        load(folder)


MLA = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 12, "v_head_dim": 16, "kv_lora_rank": 16, "q_lora_rank": None}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a state": ("mamba", {}, "'mamba' keeps more than keys and values"),
    "a state in some layers": ("lfm2", GROUPED | {"full_attn_idxs": [1]}, "'lfm2' keeps more than keys and values"),
    "keys made smaller": (
        "deepseek_v2",
        MLA | {"first_k_dense_replace": 2},
        "'deepseek_v2' has kv_lora_rank",
    ),
    "biases in place of positions": ("bloom", {}, "'bloom' has ALiBi"),
    "the same, as a field": ("falcon", {"alibi": True}, "'falcon' has ALiBi"),
    "the same, within a field": ("mpt", {}, "'mpt' has ALiBi"),
    "logits of attention bounded": ("gemma2", GROUPED, "'gemma2' has attn_logit_softcapping"),
    "a sink": ("gpt_oss", GROUPED, "gpt_oss: its attention needs s_aux"),
    "attention of its own": ("gptj", {"rotary_dim": 8}, "transformers cannot load"),
    "both directions": ("bert", {}, "bert: its attention needs its own mask"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_arena_cannot_hold_is_refused_by_name(tmp_path: Path, what: str) -> None:
    family, fields, reason = REFUSED[what]
    with pytest.raises(ModelError, match=reason) as caught:
        load(make(tmp_path, family, **fields))
    assert "use another" in str(caught.value)


def changed(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")


def pickle_instead(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def shard_lost(folder: Path) -> None:
    shard(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "unknown": (lambda folder: changed(folder, model_type="nothing"), "transformers cannot read"),
    "an encoder": (lambda folder: changed(folder, model_type="distilbert"), "no 'distilbert' that generates text"),
    "an encoder before it": (lambda folder: changed(folder, model_type="bart"), "no 'bart' that generates text"),
    "quantized": (lambda folder: changed(folder, quantization_config={"quant_method": "gptq"}), "quantized"),
    "no size": (lambda folder: changed(folder, num_attention_heads="many"), "num_attention_heads"),
    "a tensor lost": (lacking, r"the weights lack model\.norm\.weight"),
    "a tensor of another shape": (
        lambda folder: changed(folder, intermediate_size=96),
        r"layers\.0\.mlp\.\w+\.weight has shape .*80.*config\.json asks for .*96",
    ),
    "a layer too many": (
        lambda folder: changed(folder, num_hidden_layers=1),
        r"layers\.1\..*config\.json has 1 layers",
    ),
    "cut short": (cut_short, "transformers cannot load"),
    "only a pickle": (pickle_instead, r"only pytorch_model\.bin, a pickle"),
    "a shard lost": (shard_lost, r"model-00002-of-00002\.safetensors is missing"),
    "an adapter": (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"no model\.safetensors"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_told_with_its_remedy(tmp_path: Path, what: str) -> None:
    damage, reason = DAMAGE[what]
    folder = make(tmp_path, "stablelm", **GROUPED)
    load(folder)
    damage(folder)
    with pytest.raises(ModelError, match=reason) as caught:
        load(folder)
    assert ": " in str(caught.value)


ASKED = [
    {"attn_implementation": "kernels-community/flash-attn2"},
    {"_attn_implementation": "kernels-community/flash-attn2"},
    {"attn_implementation": "flash_attention_2"},
    {"experts_implementation": "of_tomorrow"},
    {"transformers_weights": "other.safetensors"},
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "{} {}".format(*next(iter(asked.items()))))
def test_a_checkpoint_chooses_neither_kernels_nor_other_files(tmp_path: Path, asked: dict[str, str]) -> None:
    folder = make(tmp_path, "mixtral", **GROUPED, num_local_experts=2)
    expected = Model(folder).alone(TOKENS[:9])
    changed(folder, **asked)
    assert min(hf_size(folder)) > 0
    decoder = load(folder)
    assert_close(decoder.forward(TOKENS[:9], DenseArena(decoder.config, 9), 9), expected)


@pytest.mark.parametrize("family", ["stablelm", "nothing"])
def test_code_in_a_checkpoint_never_runs(tmp_path: Path, family: str) -> None:
    folder, ran = make(tmp_path / "model", "stablelm", **GROUPED), tmp_path / "ran"
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')\nclass Config: pass\nclass Model: pass\n", "utf-8")
    classes = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    changed(folder, model_type=family, auto_map=classes)
    if family == "nothing":
        with pytest.raises(ModelError, match="transformers cannot read"):
            load(folder)
    else:
        load(folder)
    assert not ran.exists()
