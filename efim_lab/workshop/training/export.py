"""Writes the folder that ships: configuration, weights in half precision and tokenizer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from efim_lab.gate.network import NORM_EPSILON, ROPE_BASE, EfimForCausalLM, Shape
from efim_lab.workshop.training.samples import bpe
from model_runtime.checkpoint.config import EXCERPTS_KEY, LANGUAGES_KEY


def export(
    model: EfimForCausalLM, tokenizer: Tokenizer, folder: Path, languages: Sequence[str] = (), excerpt_rows: int = 0
) -> None:
    """Write a folder that the decoders load, and transformers if the network is a Llama.

    `languages` are those that it knows, as LSP names them; without any, it is asked in all.

    A model that was trained with isolated excerpts has `excerpt_rows` positions for them, before its context.
    """
    bpe.save(tokenizer, folder)
    fields = _fields(model.shape)
    if languages:
        fields[LANGUAGES_KEY] = [*languages]
    if excerpt_rows:
        fields[EXCERPTS_KEY] = {"mask": "typed", "tokens": excerpt_rows}
        fields["max_position_embeddings"] += excerpt_rows
    text = json.dumps(dict(sorted(fields.items())), indent=2)
    (folder / "config.json").write_text(f"{text}\n", encoding="utf-8", newline="\n")
    save_halves(model, folder / "model.safetensors")


def save_halves(model: EfimForCausalLM, weights: Path) -> None:
    """Write a model's weights in fp16; the output layer shares the embeddings, so it is not written."""
    halves = {name: tensor.to(torch.float16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(halves, weights, metadata={"format": "pt"})
    weights.chmod(0o644)


def _fields(shape: Shape) -> dict[str, Any]:
    """Return the configuration in transformers' words; the parts that are no Llama's in our own."""
    parts = {
        "head_norms": shape.head_norms,
        "head_gates": shape.head_gates,
        "token_values": shape.token_values,
    }
    family, architecture = ("efim", "EfimForCausalLM") if any(parts.values()) else ("llama", "LlamaForCausalLM")
    return {
        "architectures": [architecture],
        "model_type": family,
        **(parts if family == "efim" else {}),
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "hidden_act": "silu",
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": NORM_EPSILON,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_BASE},
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": bpe.ID[bpe.END],
        "pad_token_id": bpe.ID[bpe.PAD],
        "dtype": "float16",
    }
