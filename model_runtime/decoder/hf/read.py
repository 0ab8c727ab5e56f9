"""Reads a checkpoint by transformers: its safetensors and nothing else, no code of the folder, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from model_runtime.checkpoint.weight_files import regular_file, weight_files
from model_runtime.errors import ModelError

logging.set_verbosity_error()  # its other messages are advice to programmers
logging.disable_progress_bar()


def read_hf_config(folder: Path) -> Any:
    """Read `config.json` by transformers, without its fields on kernels to fetch and on other files."""
    try:
        found = cast(Any, AutoConfig).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each architecture has its own checks
        what = f"{folder / 'config.json'} ({first_line(error)})"
        raise ModelError(f"transformers cannot read {what}: use another model") from error
    found._attn_implementation = found._experts_implementation = found.transformers_weights = None
    return found


def read_hf_model(folder: Path, dtype: torch.dtype | Literal["auto"], attention: str | None = None) -> Any:
    """Load the model as stored or in another number format; ModelError if a tensor is missing or damaged."""
    weight_files(folder)  # without safetensors, transformers would look for other formats
    for path in sorted(folder.glob("*.json")):  # it reads several of them
        regular_file(path)
    config = read_hf_config(folder)
    try:
        model, found = cast(Any, AutoModelForCausalLM).from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            attn_implementation=attention,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are named below
        )
    except Exception as error:  # each architecture fails in its own way, a damaged file in another
        reason = f"transformers cannot load {folder} ({error!r})"
        raise ModelError(f"{reason}: fetch the model again or use another") from error
    _refuse(found, config.num_hidden_layers)
    return model


def _refuse(found: dict[str, Any], layers: int) -> None:
    """Refuse the mismatched, missing and unexpected tensors that transformers would accept."""
    for name, has, wanted in sorted(found["mismatched_keys"]):
        shapes = f"{tuple(has)}, config.json asks for {tuple(wanted)}"
        raise ModelError(f"{name} has shape {shapes}: fetch the model again")
    for name in sorted(found["missing_keys"]):
        raise ModelError(f"the weights lack {name}, which config.json asks for: fetch the model again")
    for name in sorted(found["unexpected_keys"]):
        if f".{layers}." in name:
            raise ModelError(f"the weights have {name}, config.json has {layers} layers: fetch the model again")


def first_line(error: Exception) -> str:
    """Return an error's first line; the others are advice to programmers."""
    return str(error).partition("\n")[0]
