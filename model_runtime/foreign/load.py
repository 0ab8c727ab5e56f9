"""From the folder of a checkpoint that our own decoder does not know to a decoder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

import transformers
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from model_runtime.arena import Arena
from model_runtime.attention import BACKEND, REASON
from model_runtime.config import ModelConfig
from model_runtime.errors import ModelError
from model_runtime.foreign import attention
from model_runtime.foreign.checking import check
from model_runtime.foreign.decoder import ForeignDecoder
from model_runtime.foreign.packing import pack
from model_runtime.linear import Format
from model_runtime.runtime import Runtime
from model_runtime.shards import weight_files


def on_transformers(folder: Path, config: ModelConfig, capacity: int, arenas: int, form: Format) -> Runtime:
    """Prepare a model that only transformers knows, for the CPU."""
    decoder = load_foreign(folder, config, form)
    return Runtime(
        parameters=decoder.parameters,
        decoder=decoder,
        arena=lambda: Arena(config, capacity),
        arenas=arenas,
        weights=form,
        kv=kv_form(folder, form),
        name="transformers",
        reason=f"our own decoder does not know {config.family}",
        attention=BACKEND,
        attention_reason=REASON,
    )


def load_foreign(folder: Path, config: ModelConfig, form: Format) -> ForeignDecoder:
    """Read, pack and check a model on the CPU; ModelError names what is wrong with it."""
    model = _read(folder)
    parameters = model.num_parameters()
    pack(model, form)
    decoder = ForeignDecoder(config, model, parameters)
    check(decoder, model)
    return decoder


def kv_form(folder: Path, form: Format) -> str:
    """What the fingerprint of keys and values is to cover beside `ModelConfig`, which does not say it all."""
    digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    return f"{form}, transformers {transformers.__version__}, {digest}"


def _read(folder: Path) -> Any:
    """The model as it is stored; nothing but safetensors is read, and no code of the checkpoint runs."""
    weight_files(folder)  # transformers would look for other formats
    attention.register()
    logging.disable_progress_bar()
    try:
        model, found = cast(Any, AutoModelForCausalLM).from_pretrained(
            folder,
            dtype="auto",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            attn_implementation=attention.NAME,
            output_loading_info=True,
        )
    except Exception as error:  # each architecture fails in its own way, a damaged file in another
        reason = f"transformers cannot load {folder} ({error!r})"
        raise ModelError(f"{reason}: fetch the model again or use another") from error
    if missing := sorted(found["missing_keys"]):
        raise ModelError(f"the weights lack {missing[0]}, which config.json asks for: fetch the model again")
    return model.eval()
