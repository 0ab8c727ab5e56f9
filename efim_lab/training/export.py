"""Writes the folder that ships: configuration, weights in half precision and tokenizer."""

import copy
from pathlib import Path

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from efim_lab.training.samples import bpe
from model_runtime.checkpoint.config import EXCERPTS_KEY, LANGUAGES_KEY

LANGUAGES = ("python",)  # of the corpus, as LSP names them


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path, excerpt_rows: int = 0) -> None:
    """Write a folder for `LlamaForCausalLM.from_pretrained`; the tied output layer is stored once.

    A model that was trained with isolated excerpts has `excerpt_rows` positions for them, before its context.
    """
    bpe.save(tokenizer, folder)
    config = copy.deepcopy(model.config)
    if excerpt_rows:
        setattr(config, EXCERPTS_KEY, {"mask": "typed", "tokens": excerpt_rows})
        config.max_position_embeddings += excerpt_rows
    config.architectures = ["LlamaForCausalLM"]
    config.dtype = torch.float16
    setattr(config, LANGUAGES_KEY, list(LANGUAGES))
    config.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
    save_halves(model, folder / "model.safetensors")


def save_halves(model: LlamaForCausalLM, weights: Path) -> None:
    """Write a model's weights in fp16, without the tied output layer."""
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    halves = {name: tensor.to(torch.float16).contiguous() for name, tensor in tensors.items()}
    save_file(halves, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
