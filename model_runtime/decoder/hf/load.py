"""Loads a checkpoint that our own decoder does not know as a decoder by transformers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import transformers

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.decoder.any_decoder import TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime
from model_runtime.decoder.hf import attention
from model_runtime.decoder.hf.decoder import HfDecoder
from model_runtime.decoder.hf.pack import pack
from model_runtime.decoder.hf.read import read_hf_model
from model_runtime.decoder.hf.self_check import check_decoder
from model_runtime.decoder.quantization import Format
from model_runtime.kv.arena import DenseArena


def load_with_transformers(folder: Path, config: ModelConfig, capacity: int, arenas: int, form: Format) -> Runtime:
    """Load a model that only transformers knows, on the CPU."""
    decoder = load_hf_decoder(folder, config, form)
    return Runtime(
        parameters=decoder.parameters,
        decoder=decoder,
        arena=lambda: DenseArena(config, capacity),
        arenas=arenas,
        weights=form,
        kv=kv_form(folder, form),
        name="transformers",
        reason=f"our own decoder does not know {config.family}",
        attention=TORCH_ATTENTION,
        attention_reason=TORCH_ATTENTION_REASON,
    )


def load_hf_decoder(folder: Path, config: ModelConfig, form: Format) -> HfDecoder:
    """Read, pack and check a model on the CPU; ModelError names the fault."""
    attention.register()
    model = read_hf_model(folder, "auto", attention.ATTENTION_NAME).eval()
    parameters = model.num_parameters()
    pack(model, form)
    decoder = HfDecoder(config, model, parameters)
    check_decoder(decoder, model)
    return decoder


def kv_form(folder: Path, form: Format) -> str:
    """Return the values that the fingerprint must cover in addition to the incomplete `ModelConfig`."""
    digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    return f"{form}, transformers {transformers.__version__}, {digest}"
